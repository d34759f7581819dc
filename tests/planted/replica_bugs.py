"""Bugs of replicas, coordinators and controllers that fuzzers with a model find (tests/fuzz)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from kwire.cluster.controller import view
from kwire.cluster.controller.plans import features, topics
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.placement import UsableBroker
from kwire.cluster.quorum import describing
from kwire.coordinator.loading import Loader
from kwire.log import rolling, scrubbing
from kwire.log.closed_logs import ClosedLogs
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory
from kwire.log.log_offsets import LogOffsets
from kwire.log.partition_log import PartitionLog
from kwire.protocol.messages.fetch import FetchPartition
from kwire.server.fetching import closest_replica
from kwire.server.requests.context import RequestContext
from tests.planted.bug import Catalogue, never, nothing

REPLICA_BUGS: Final = Catalogue()
_bug = REPLICA_BUGS.bug
_closer_replica = closest_replica.closer_replica


@_bug("R18", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[log]")
def a_damaged_log_stays_when_its_topic_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """A log that cannot be opened stays in its directory, and the next topic with its name gets it."""
    patch.setattr(ClosedLogs, "delete", nothing)
    patch.setattr(ClosedLogs, "set_aside_if_foreign", never)


@_bug("R18", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[log]")
def a_log_of_an_earlier_topic_is_taken_for_the_new_one(patch: pytest.MonkeyPatch) -> None:
    """The topic id of a directory is not read before its log is opened."""
    patch.setattr(ClosedLogs, "set_aside_if_foreign", never)


@_bug("S4", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[follower]")
def a_segment_begins_behind_a_gap(patch: pytest.MonkeyPatch) -> None:
    """A gap that compaction made lies between two segments of a follower; a start treats it as lost batches."""

    def first(log_end_offset: int, first_offset: int, last_offset: int) -> int:
        return first_offset

    patch.setattr(rolling, "base_offset", first)


@_bug("S13", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[follower]")
def a_round_goes_on_when_its_log_is_cut(patch: pytest.MonkeyPatch) -> None:
    """Records that a compaction round read before a truncation replace those appended after it."""
    patch.setattr(LogOffsets, "truncations", property(lambda _: 0, nothing))


@_bug("S7", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[follower]")
def the_scrubber_goes_on_where_a_log_was_cut(patch: pytest.MonkeyPatch) -> None:
    """The scrubber reports damage in a sound log, because it looks for a batch at its position before a truncation."""

    class Blind:
        """Log that hides its truncations."""

        offsets = SimpleNamespace(truncations=0)

        def __init__(self, log: PartitionLog) -> None:
            self._log = log

        def __getattr__(self, name: str) -> Any:
            return getattr(self._log, name)

    check = scrubbing._check

    def check_blindly(log: PartitionLog, is_held: Callable[[PartitionLog], bool]) -> Iterator[int]:
        return check(cast("PartitionLog", Blind(log)), lambda _: is_held(log))

    patch.setattr(scrubbing, "_check", check_blindly)


@_bug("S1", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[follower]")
def a_cut_leaves_what_is_noted_of_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """After a kill, records appended since a truncation count as deleted."""
    write = LogDirectories.write_lowered

    def write_others(self: LogDirectories, directory: LogDirectory, log_starts: bool = False) -> None:
        write(self, directory)

    patch.setattr(LogDirectories, "write_lowered", write_others)


@_bug("M1", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[flap]")
def a_shard_that_was_given_up_goes_on_loading(patch: pytest.MonkeyPatch) -> None:
    """State loaded after the loss of leadership counts forever in the memory of transactional ids."""
    patch.setattr(Loader, "_is_stopped", property(never))


@_bug("C1", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[controller]")
def a_feature_level_is_set_that_a_broker_does_not_support(patch: pytest.MonkeyPatch) -> None:
    """UpdateFeatures checks only the local controller; an older broker stops at the record."""
    patch.setattr(features, "_node_error", nothing)


@_bug("C1", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[controller]")
def a_stopped_broker_gets_no_replica(patch: pytest.MonkeyPatch) -> None:
    """A broker stays in controlled shutdown after it is fenced: no topic that needs its replica can be created."""

    def usable(image: MetadataImage) -> list[UsableBroker]:
        return [
            UsableBroker(broker_id=broker.broker_id, rack=broker.rack, is_fenced=broker.fenced)
            for broker in image.brokers.values()
            if not broker.in_controlled_shutdown
            and view._takes_replicas(broker.directories, broker.cordoned_directories)
        ]

    patch.setattr(topics, "usable_brokers", usable)


@_bug("R20", "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[closest]")
def consumers_are_sent_to_replicas_out_of_sync(patch: pytest.MonkeyPatch) -> None:
    """The preferred read replica may be any replica in the consumer's rack, in sync or not (KIP-392)."""
    patch.setattr(closest_replica, "closer_replica", _any_replica)


def _any_replica(partition: Partition, asked: FetchPartition, rack: str, context: RequestContext) -> int | None:
    image = partition.image
    partition.image = replace(image, isr=image.replicas)
    try:
        return _closer_replica(partition, asked, rack, context)
    finally:
        partition.image = image


@_bug("C1", "cluster/quorum/test_scripts.py::test_script[voters_of_a_static_quorum_do_not_change]")
def static_voters_have_directory_ids(patch: pytest.MonkeyPatch) -> None:
    """DescribeQuorum at kraft.version 0 returns the directory ids of voters."""
    patch.setattr(describing, "RECONFIGURABLE", -1)
