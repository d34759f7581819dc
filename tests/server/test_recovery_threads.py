"""Setting num.recovery.threads.per.data.dir: the number of logs that are opened at start, or closed at stop, in
parallel.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.jobs import run_stages
from kwire.log.disk import PARTS_MAX
from kwire.log.jobs import Stage
from kwire.seams import Workers
from kwire.server.node.runtime import recovery_threads
from kwire.server.settings.config import make_config
from tests.support.running import RunningBroker

SETTING = "num.recovery.threads.per.data.dir"


@pytest.mark.parametrize(("setting", "directories", "threads"), [(1, 1, 1), (2, 3, 6), (2**31 - 1, 3, PARTS_MAX)])
def test_the_number_of_recovery_threads_is_bounded(
    monkeypatch: pytest.MonkeyPatch, setting: int, directories: int, threads: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (100_000, 100_000))
    assert (
        recovery_threads(CurrentSettings(make_config({SETTING: str(setting)}).parsed), directories=directories)
        == threads
    )


def test_start_and_stop_use_the_configured_number_of_recovery_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[int] = []

    async def noted(stages: Iterable[Stage], workers: Workers, *, at_once: int) -> None:
        lanes.append(at_once)
        await run_stages(stages, workers, at_once=min(at_once, PARTS_MAX))

    for phase in ("replicas", "broker"):
        monkeypatch.setattr(f"kwire.server.assembly.{phase}.run_stages", noted)
    monkeypatch.setattr("resource.getrlimit", lambda _: (100_000, 100_000))
    directories = ",".join(str(tmp_path / name) for name in "ab")
    RunningBroker(tmp_path, {SETTING: "40", "log.dirs": directories}).stop()
    assert lanes == [40, PARTS_MAX]
    lanes.clear()
    RunningBroker(tmp_path, {SETTING: "1000000", "log.dirs": directories}).stop()
    assert lanes == [PARTS_MAX, PARTS_MAX]
