"""Cleaner and other changes to a compacted log: a reader from its start always gets the latest value of each key.

Logs are truncated by a new leader, moved to another directory, deleted and created again, closed cleanly or killed, and
cleaned in between. A deleted key must not return, whatever the checkpoint contains.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwire.log.config import LogConfig
from kwire.log.partition_log import PartitionLog
from tests.log.compaction.support import append
from tests.log.support import FixedChance, everything
from tests.server.compaction.test_cleaner import World

DELETE_RETENTION_MS = 1000
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=DELETE_RETENTION_MS,
    file_delete_delay_ms=0,
)
TOPIC = "orders"
KEYS = st.sampled_from([b"a", b"b"])
PAIRS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(min_size=1, max_size=2))), min_size=1, max_size=3)


class CleanerModel(RuleBasedStateMachine):
    """Model of a log: all records that it should contain, compacted or not."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="kwire-cleaner-"))
        self.records: list[tuple[int, bytes, bytes | None]] = []
        self.superseded: set[bytes] = set()
        """Keys whose later values were truncated, after compaction may have removed the earlier ones."""
        self.cleaned_to = 0
        """Offset below which records may have been removed; a truncation does not lower it, unlike the first dirty
        offset.
        """
        self.topics = self.starts = 0
        self.now_ms = 0

    @initialize()
    def begin(self) -> None:
        self._start()
        self._make_topic()

    def _start(self) -> None:
        self.starts += 1
        random_source = FixedChance(drawn=1_000_000 * self.starts)
        self.world = World(self.path / "0", more_directories=[str(self.path / "1")], random_source=random_source)
        self.now_ms = self.world.clock.now_ms = max(self.now_ms, self.world.clock.now_ms)

    def _make_topic(self) -> None:
        self.topics += 1
        self.world.logs.get_or_create(TOPIC, 0, CONFIG, UUID(int=self.topics))
        self.records = []
        self.superseded = set()
        self.cleaned_to = 0

    @property
    def log(self) -> PartitionLog:
        log = self.world.logs.get(TOPIC, 0)
        assert log is not None
        log.update_config(CONFIG)  # the world loads logs with its own config
        return log

    # --- appends of a leader

    @rule(pairs=PAIRS)
    def append(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        base = append(self.log, *pairs, timestamp=self.now_ms)
        self.records += [(base + index, key, value) for index, (key, value) in enumerate(pairs)]
        self.superseded -= {key for key, _ in pairs}

    @precondition(lambda self: self.records)
    @rule(share=st.floats(0, 1), pairs=PAIRS, is_restarted=st.booleans())
    def follow_another_leader(self, share: float, pairs: list[tuple[bytes, bytes | None]], is_restarted: bool) -> None:
        """Truncate the log as after an unclean election, possibly below the compacted part.

        Then both earlier and later values of a key may be lost.
        """
        cleaned_to = max(self.cleaned_to, self.log.offsets.first_dirty)
        self.log.truncate_to(int(self.log.log_end_offset * share))
        end = self.log.log_end_offset
        self.superseded |= {key for offset, key, _ in self.records if end <= offset < cleaned_to}
        self.cleaned_to = min(cleaned_to, end)
        self.records = [each for each in self.records if each[0] < end]
        self.append(pairs)
        if is_restarted:
            self.restart(clean=False)

    @rule()
    def make_anew(self) -> None:
        self.world.logs.delete(TOPIC, 0)
        self._make_topic()

    # --- actions of the broker

    @rule()
    def time_passes(self) -> None:
        self.now_ms = self.world.clock.now_ms = self.now_ms + 2 * DELETE_RETENTION_MS

    @rule()
    def clean(self) -> None:
        self.log.roll()
        self.log.flush()
        self.world.clean()

    @rule(fillers=st.sampled_from([1, 10, 200]))
    def clean_until_tombstones_are_gone(self, fillers: int) -> None:
        """Clean twice: the first round sets the tombstones' delete horizon, a later one removes them.

        With many fillers, the log grows past its end before the truncation.
        """
        for count in (fillers, 1, 1):
            self.append([(b"filler", b"1")] * count)
            self.clean()
            self.time_passes()

    @rule(is_finished=st.booleans())
    def move(self, is_finished: bool) -> None:
        logs, log = self.world.logs, self.log
        target = next(found for found in logs.directories if found is not logs.directories.directory_of(log))
        copying = logs.futures.begin(log, target)
        while copying.step(1000):
            pass
        if is_finished:
            logs.futures.replace(log)
        else:
            logs.futures.abandon(TOPIC, 0)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.world.logs.close(clean=clean)
        self._start()

    # --- reads

    @invariant()
    def a_reader_sees_the_latest_values(self) -> None:
        if not self.topics:
            return
        assert not self.world.logs.directories.any_offline
        read: dict[Any, Any] = {record.key: record.value for record in everything(self.log)}
        wanted = {key: value for _, key, value in self.records}
        assert _present(read).items() <= _present(wanted).items()
        assert _present(wanted).keys() - self.superseded <= _present(read).keys()

    def teardown(self) -> None:
        if self.topics:
            self.world.logs.close(clean=False)
        shutil.rmtree(self.path)


def _present(values: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if value is not None}


TestCleanerModel = CleanerModel.TestCase
TestCleanerModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
