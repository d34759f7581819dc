"""The cleaner and what else happens to a compacted log: who reads it from its start sees the latest value of each key.

Logs are cut as by a new leader, moved to another directory, deleted and made anew, closed cleanly or killed, and
cleaned in between. A key that was deleted must not come back, whatever the checkpoint says.
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
    """All records that are in the log by what was done to it, compacted or not."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="kwire-cleaner-"))
        self.records: list[tuple[int, bytes, bytes | None]] = []
        self.superseded: set[bytes] = set()
        """Keys whose later values were cut off, after compaction may have removed the earlier ones."""
        self.cleaned_to = 0
        """Up to where records may have been removed, though the log's first dirty offset was lowered by a cut since."""
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
        log.update_config(CONFIG)  # the world loads logs with its own
        return log

    # --- what a leader sends

    @rule(pairs=PAIRS)
    def append(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        base = append(self.log, *pairs, timestamp=self.now_ms)
        self.records += [(base + index, key, value) for index, (key, value) in enumerate(pairs)]
        self.superseded -= {key for key, _ in pairs}

    @precondition(lambda self: self.records)
    @rule(share=st.floats(0, 1), pairs=PAIRS, is_restarted=st.booleans())
    def follow_another_leader(self, share: float, pairs: list[tuple[bytes, bytes | None]], is_restarted: bool) -> None:
        """Cut the log, also below what was compacted, as after an unclean election.

        Earlier values of a key may be gone with the later ones then.
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

    # --- what the broker does

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
        """The first round gives them their time, one after it takes them away.

        With many fillers the log passes the end that it had before it was cut.
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

    # --- what a reader sees

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
