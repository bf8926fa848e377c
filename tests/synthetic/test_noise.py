"""Fields have the variance and wavelength they are asked for, and no direction of their own."""

from __future__ import annotations

import numpy as np
import pytest

from reassembly.synthetic.noise import rough_field, rough_line, smooth_field, white_noise


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("wavelength", [12.0, 60.0, 200.0])
def test_smooth_fields_turn_over_within_a_wavelength(wavelength):
    fields = [smooth_field(rng(seed), (300, 400), wavelength) for seed in range(20)]
    assert np.std(fields) == pytest.approx(1, abs=0.2)
    step = round(wavelength / 2)
    near = np.mean([np.mean(f[:, :-2] * f[:, 2:]) for f in fields])
    half = np.mean([np.mean(f[:, :-step] * f[:, step:]) for f in fields])
    assert near > 0.5
    assert half < 0.2


def test_fields_are_the_same_along_rows_and_columns():
    fields = [rough_field(rng(seed), (300, 300), 40) for seed in range(10)]
    along = np.mean([np.diff(f, axis=1).std() for f in fields])
    down = np.mean([np.diff(f, axis=0).std() for f in fields])
    assert along == pytest.approx(down, rel=0.1)


def test_rough_fields_are_rougher_with_a_smaller_exponent():
    def fine(exponent):
        return np.mean(
            [np.diff(rough_field(rng(s), (200, 200), 32, exponent)).std() for s in range(8)]
        )

    assert fine(0.5) > 1.3 * fine(1.5)


def test_rough_lines_have_variance_one_and_no_long_waves():
    lines = np.array([rough_line(rng(seed), 2000, 50.0) for seed in range(40)])
    assert lines.std() == pytest.approx(1, abs=0.05)
    spectrum = np.abs(np.fft.rfft(lines * np.hanning(2000), axis=1)).mean(axis=0)
    assert spectrum[2:20].mean() < 0.05 * spectrum[40:80].mean()


def test_white_noise_fits_windows_larger_than_its_tile():
    noise = white_noise(rng(), (1500, 80))
    assert noise.shape == (1500, 80, 3)
    assert noise.std() == pytest.approx(1, abs=0.02)
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.02
