"""Whether confidence means what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.reproduce.figures import calibration


def fragments(pairs):
    return [{"confidence": sure, "correct": right} for sure, right in pairs]


def test_honest_and_boastful_solvers_are_told_apart():
    honest = fragments([(0.8, k < 8) for k in range(10)] + [(0.2, k < 2) for k in range(10)])
    bins, gap = calibration(honest)
    assert gap == pytest.approx(0.0) and [b[2] for b in bins] == [10, 10]
    _, gap = calibration(fragments([(1.0, False)] * 5))
    assert gap == pytest.approx(1.0)
    assert calibration(fragments([(None, True)])) == ([], None)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_every_fragment_is_in_one_bin(pairs):
    bins, gap = calibration(fragments(pairs))
    assert sum(count for _, _, count in bins) == len(pairs)
    assert 0 <= gap <= 1
    assert [mean for mean, _, _ in bins] == sorted(mean for mean, _, _ in bins)
