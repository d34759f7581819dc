"""Topic configuration, converted to the configuration of its logs."""

from __future__ import annotations

import pytest

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.topic_configs import log_config


@pytest.mark.parametrize(
    ("overrides", "segment_bytes"),
    [
        ({}, 1024**3),
        ({"segment.bytes": "2000000"}, 2_000_000),
        ({"segment.bytes": "2000000", "internal.segment.bytes": "5000"}, 5000),
        ({"internal.segment.bytes": "0"}, 0),
    ],
)
def test_the_internal_segment_size_counts_where_it_is_set(overrides: dict[str, str], segment_bytes: int) -> None:
    assert log_config(overrides, default_settings()).segment_bytes == segment_bytes
