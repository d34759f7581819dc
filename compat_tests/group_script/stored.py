"""Comparison of the records of groups that two brokers have written."""

from collections.abc import Iterator
from typing import Any

from compat_tests.harness.answers import apart
from kwire.coordinator.group.records import decode_group_record
from kwire.coordinator.share.records import decode_share_record
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.share_group_records import ShareGroupTargetAssignmentMemberKey
from kwire.protocol.records import Record, decode_batch, iterate_headers

GROUPS, SHARES = "__consumer_offsets", "__share_group_state"
TIMES = {"commit_timestamp", "current_state_timestamp", "assignment_timestamp", "create_ms", "write_ms"}
NOT_COMPARED = {*TIMES, "metadata_hash", "timestamp", "record_offset", "state_epoch", "version"}
"""The version is that of the metadata with which a regular expression was resolved."""


def stored(players: list[Any]) -> list[str]:
    """Return the differences of the newest record of each key."""
    ours, theirs = [stored_records(player) for player in players]
    return [
        f"stored in {topic}" + "".join(apart(ours[topic], theirs[topic]))
        for topic in (GROUPS, SHARES)
        if ours[topic] != theirs[topic]
    ]


def stored_records(player: Any) -> dict[str, dict[str, Any]]:
    """Return the newest record of each key, by topic; a topic that does not exist has none."""
    return {
        topic: _newest(player, topic, decode)
        for topic, decode in ((GROUPS, decode_group_record), (SHARES, decode_share_record))
    }


def _newest(player: Any, topic: str, decode: Any) -> dict[str, Any]:
    newest: dict[str, Any] = {}
    for record in _records(player, topic):
        assert record.key is not None
        key, value = decode(record.key, record.value)
        if isinstance(key, ShareGroupTargetAssignmentMemberKey):
            continue  # Kafka keeps topics that no member reads any more: docs/differences.md
        newest[f"{type(key).__name__} {player.plain(key)}"] = _comparable(player.plain(value))
    return dict(sorted((key, value) for key, value in newest.items() if value is not None))


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items() if name not in NOT_COMPARED}
    return [_comparable(each) for each in value] if isinstance(value, list) else value


def _records(player: Any, topic: str) -> Iterator[Record]:
    (found,) = player.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9).topics
    for index in range(len(found.partitions)):
        offset = 0
        while True:
            partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 24)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=1 << 26, topics=[FetchTopic(topic=topic, partitions=[partition])]
            )
            (data,) = player.ask(request, 11).responses[0].partitions
            if not data.records:
                break
            for position, header in iterate_headers(data.records):
                offset = header.next_offset
                if not header.is_control:
                    yield from decode_batch(data.records, position)
