"""Fixture: a world of metadata logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.raft_world import World
from tests.virtual_loop import virtual_loop


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with virtual_loop() as loop:
        made = World(tmp_path, loop, voters=3)
        yield made
        made.close()
