"""Reliability of probabilities, against draws that keep or break their word."""

import numpy as np
import pytest

from reassembly.metrics.reliability import reliability, reliability_text, wilson


def test_probabilities_that_keep_their_word_have_a_small_error():
    generator = np.random.default_rng(0)
    said = generator.random(20_000)
    bins, error = reliability(said, generator.random(20_000) < said)
    assert len(bins) == 10 and sum(b.count for b in bins) == 20_000
    assert error < 0.02
    for b in bins:
        assert b.first <= b.said <= b.last
        low, high = b.interval
        assert low - 0.02 < b.said < high + 0.02
    _, error = reliability(said, generator.random(20_000) < said**3)
    assert error == pytest.approx(0.25, abs=0.02)


def test_certainty_counts_and_empty_ranges_do_not():
    bins, error = reliability(np.array([1.0, 1.0, 0.0]), np.array([True, False, False]))
    assert [(b.first, b.count, b.said, b.true) for b in bins] == [
        (0.0, 1, 0.0, 0.0),
        (0.9, 2, 1, 0.5),
    ]
    assert error == pytest.approx(2 / 3 * 0.5)
    assert reliability(np.zeros(0), np.zeros(0, bool)) == ([], None)


def test_intervals_stay_within_bounds_and_narrow():
    assert wilson(1.0, 14)[1] == pytest.approx(1.0)
    assert wilson(0.0, 5)[0] == pytest.approx(0.0)
    wide, narrow = (np.subtract(*wilson(0.5, n)[::-1]) for n in (10, 1000))
    assert wide > 5 * narrow


def test_risk_and_coverage_are_told_by_level():
    said = np.array([0.95, 0.92, 0.6, 0.05])
    text = reliability_text("joins", said, np.array([True, False, True, False]), touching=4)
    assert "joins: 4 pairs, 4 with a true placement, 2 found first" in text
    assert "at least 0.9: 2 joins, 0.500 of them true, 0.250 of the pairs that touch" in text
    assert "at least 0.5: 3 joins, 0.667 of them true, 0.500 of the pairs that touch" in text
