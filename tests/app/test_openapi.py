from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from requests import Session
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error

from tests.app.live import Live, cut_outs

DESTRUCTIVE = {"/api/projects/{project}", "/api/projects/{project}/hypotheses/{hypothesis}"}
"""Deleting these would leave nothing to attack."""
ENDLESS = {"/api/projects/{project}/stream"}
EXPENSIVE = {
    "/api/projects/{project}/hypotheses/{hypothesis}/solve",
    "/api/projects/{project}/joins",
}
"""Queued by the dozen, they would outlive the test."""


@pytest.fixture(scope="module")
def known(server: Live) -> dict[str, str]:
    """Ids that exist, so that requests get past the first check."""
    project, hypothesis = server.project("Fuzzed")
    server.bring_in(project, cut_outs(3), mm_per_px=0.5)
    upload = server.send(project, {"a.png": b"not a picture"})
    piece = server.get(f"/projects/{project}/pieces")[0]
    formats = {"formats": ["csv"]}
    job = server.post(f"/projects/{project}/hypotheses/{hypothesis}/exports", formats)["job"]
    server.wait(job)
    return {
        "project": project,
        "hypothesis": hypothesis,
        "piece": piece["id"],
        "sha": piece["picture"],
        "job": job["id"],
        "upload": upload["id"],
    }


def _attack(
    server: Live, known: dict[str, str], examples: int, mode: GenerationMode
) -> Counter[int]:
    """Sends made-up requests to every operation; counts the answers by status."""
    schema = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json")
    session = Session()
    answers: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path not in ENDLESS | EXPENSIVE:
            spare = operation.method.upper() == "DELETE" and operation.path in DESTRUCTIVE
            ids = {} if spare else known
            _attack_one(
                operation.as_strategy(generation_mode=mode), ids, examples, answers, session
            )
    return answers


def _attack_one(
    cases: SearchStrategy[Case],
    known: dict[str, str],
    examples: int,
    answers: Counter[int],
    session: Session,
) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def attack(case: Case) -> None:
        for name in set(case.path_parameters or {}) & known.keys():
            case.path_parameters[name] = known[name]
        response = case.call(session=session, timeout=60)
        answers[response.status_code] += 1
        case.validate_response(response, checks=[not_a_server_error])
        if response.status_code >= 400:
            assert set(json.loads(response.content)) == {"what", "remedy"}

    with suppress(Unsatisfiable):  # Where nothing can be wrong, there is nothing to try.
        attack()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_the_server(
    server: Live, known: dict[str, str], mode: GenerationMode
) -> None:
    answers = _attack(server, known, 4, mode)
    assert not [status for status in answers if status >= 500]
    if mode is GenerationMode.POSITIVE:
        assert answers[200] > 20  # Requests did reach what they were made for.


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_of_many_breaks_the_server(
    server: Live, known: dict[str, str], mode: GenerationMode
) -> None:
    answers = _attack(server, known, 30, mode)
    assert not [status for status in answers if status >= 500]
