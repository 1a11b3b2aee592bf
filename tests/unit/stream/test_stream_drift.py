"""The exponent with which an error grows along a stream."""

import numpy as np
import pytest

from trt_workbench.stream.drift import drift

LIMIT = 0.25


def errors(chunks: int, exponent: float, seed: int, spread: float = 0.3) -> np.ndarray:
    numbers = np.arange(1, chunks + 1)
    return 1e-6 * numbers**exponent * np.random.default_rng(seed).lognormal(0, spread, chunks)


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("chunks", [100, 300, 3000])
def test_a_known_exponent_is_found(exponent: float, chunks: int) -> None:
    fits = [drift(errors(chunks, exponent, seed), 20) for seed in range(20)]
    inside = [fit is not None and fit.low <= exponent <= fit.high for fit in fits]
    assert sum(inside) >= 16  # of an interval of 95 %
    assert abs(np.median([fit.exponent for fit in fits if fit]) - exponent) < 0.1


def test_no_healthy_stream_alarms_and_every_growing_one_does() -> None:
    healthy = [drift(errors(300, 0.0, seed), 35) for seed in range(36)]
    growing = [drift(errors(300, 1.0, seed), 35) for seed in range(36)]
    assert all(fit is not None and fit.low <= LIMIT for fit in healthy)
    assert all(fit is not None and fit.low > LIMIT for fit in growing)


def test_spikes_do_not_move_it() -> None:
    spiked = errors(300, 0.0, 0)
    spiked[250:270] *= 1000
    fit = drift(spiked, 35)
    assert abs(fit.exponent) < 0.1


def test_the_warm_up_is_left_out() -> None:
    filling = errors(300, 0.0, 0)
    filling[:60] *= np.linspace(0.01, 1, 60)
    fit = drift(filling, 60)
    assert (fit.from_chunk, fit.points) == (60, 240)
    assert fit.low <= LIMIT
    whole = drift(filling, 0)
    assert whole.exponent > fit.exponent


def test_a_plateau_is_no_growth() -> None:
    numbers = np.arange(10_000)
    plateau = (1 - np.exp(-numbers / 800)) * errors(10_000, 0.0, 0)
    fit = drift(plateau[1:], 0, recurrent=True)
    assert fit.low <= LIMIT
    assert fit.last_quarter_ratio == pytest.approx(1, abs=0.1)
    still_growing = drift(errors(10_000, 0.5, 0), 0, recurrent=True)
    assert still_growing.low > LIMIT


def test_no_error_has_no_exponent() -> None:
    assert drift(np.zeros(300), 35) is None
    assert drift(np.full(300, np.inf), 35) is None
    assert drift(errors(15, 0.0, 0), 0) is None
