import pytest

from reassembly.reproduce.parts import trained_alike


def line(group, training):
    return {"group": group, "training": training}


@pytest.mark.parametrize(
    ("lines", "alike"),
    [
        pytest.param([], True, id="none-learned"),
        pytest.param(
            [line("plain", "4.9 min on a GPU"), line("tuned", "each fold 3.1 min on a GPU")],
            True,
            id="groups-may-differ",
        ),
        pytest.param(
            [line("plain", "4.9 min on a GPU, not converged"), line("plain", "4.9 min on a GPU")],
            True,
            id="converged-or-not",
        ),
        pytest.param(
            [
                line("tuned", "each fold 3.1 min on a GPU"),
                line("tuned", "each fold 1 min on a GPU"),
            ],
            False,
            id="one-shorter",
        ),
        pytest.param(
            [line("plain", "4.9 min on a GPU"), {"group": "plain"}, line("plain", "9 min on it")],
            False,
            id="others-between",
        ),
    ],
)
def test_rows_of_unequal_training_are_told_within_their_group(lines, alike):
    assert trained_alike(lines) is alike
