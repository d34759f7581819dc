"""Fixtures: one broker for all tests of a module, which a module may replace; topics have unique names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.faults import FaultyDisk
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        yield connected


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def directories(data_dir: Path) -> list[str]:
    """Return two log directories."""
    return [str(data_dir / name) for name in ("d0", "d1")]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()
