"""The trend that decides whether a soak test passes."""

from __future__ import annotations

import pytest

from tests.campaign.soak.trend import growth_an_hour


def test_growth_is_the_hourly_slope_relative_to_the_mean() -> None:
    seconds = [float(second) for second in range(0, 3601, 10)]
    assert growth_an_hour(seconds, [1000.0] * len(seconds)) == 0
    assert growth_an_hour(seconds, [1000.0 + second / 360 for second in seconds]) == pytest.approx(0.00995, abs=1e-5)
    sawtooth = [1000.0 + (second % 60) for second in seconds]
    assert abs(growth_an_hour(seconds, sawtooth)) < 0.001
    assert growth_an_hour([1.0], [5.0]) == 0
