"""Answers as plain values that two brokers can have in common.

What each broker makes up (topic ids, member ids, producer ids, sessions) is compared by pairs: two ids that came up in
the same place for the first time belong together, and from then on nothing else may stand for either. Addresses,
directories, free space, throttle times and the present moment are replaced by words. Of a message in words, only
whether there is one is kept: the sentences are each broker's own.
"""

import hashlib
import re
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kwire.protocol.records import InvalidRecordsError, batch_body, crc_matches, iterate_headers
from kwire.protocol.schema import Array, FieldSchema, Schema

UUID_IN_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NOW_MS = 20 * 3_600_000
"""Times this close to the present were made by a broker."""
TOPICS_OF_KAFKA = ("__transaction_state", "__share_group_state")
"""Of coordinators that kwire has not."""
MORE = " bytes more"
"""What follows the last whole batch."""
OWN_PRODUCER_IDS = 9_000_000
"""From here on, producer ids are the script's."""

#: What is shown of a batch's header as it is.
HEADER = ("base_offset", "length", "partition_leader_epoch", "magic", "attributes", "last_offset_delta")
HEADER += ("producer_epoch", "base_sequence", "record_count")

PARTITIONS = ("partitions", "partition_responses", "results_by_partition")
#: Fields of which nothing is compared.
LEFT_OUT = {"throttle_time_ms", "cluster_id", "host", "port", "usable_bytes", "total_bytes", "log_dir", "broker_epoch"}
#: Offsets in the metadata log: each broker's own number of records.
LEFT_OUT |= {"QuorumReplicaState.log_end_offset", "DescribeQuorumResponsePartitionData.high_watermark"}
LEFT_OUT |= {"DescribeQuorumResponsePartitionData.leader_epoch"}
LEFT_OUT |= {"ApiVersionsResponse.finalized_features_epoch"}
#: What says of which thing an element of a list speaks. The order of a list means nothing: Kafka's follows hash tables.
IDENTITY = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "resource_type",
    "resource_name",
    "partition_index",
    "partition",
    "index",
    "api_key",
    "key",
    "feature",
    "client_id",
    "group_instance_id",
    "entity",
    "entity_type",
    "entity_name",
    "user",
    "last_sequence",
    "last_timestamp",
    "metadata",
    "error_code",
)


@dataclass(frozen=True, slots=True)
class Own:
    """A value that a broker made up, or a text with such values in it."""

    kind: str
    values: tuple[Hashable, ...]
    around: str = ""
    """The text without them."""
    is_tied: bool = False
    """Another element of the same list differs by nothing but such values, so that it may stand for either."""


class Names:
    """Which of one broker's own values were found equal to the other's, by a number that both have for it."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, Hashable], int] = {}

    def order(self, element: Any) -> list[str]:
        """What to sort an element by: the thing that it speaks of, not the values that a broker made up."""
        key = [UUID_IN_TEXT.sub("", str(getattr(element, "member_id", "")))]
        for name in IDENTITY:
            value = getattr(element, name, None)
            if isinstance(value, UUID):
                value = self.numbers.get(("id", str(value)), -1) if value.int else -2
            elif isinstance(value, list):
                value = sorted(self.order(each) for each in value)
            key.append(repr(value))
        return key


def sorted_plain(made: list[tuple[list[str], dict[str, Any]]], names: Names) -> list[dict[str, Any]]:
    """By the keys, then by all that the brokers did not make up; elements that differ by nothing else are tied."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for key, element in sorted(made, key=lambda each: each[0]):
        by_key.setdefault(repr(key), []).append(element)
    return [each for group in by_key.values() for each in (group if len(group) == 1 else _untied(group, names))]


def _untied(elements: list[dict[str, Any]], names: Names) -> list[dict[str, Any]]:
    shown = [repr(_masked(each, names)) for each in elements]
    pairs = sorted(zip(shown, elements, strict=True), key=lambda pair: pair[0])
    return [_tied(element) if shown.count(text) > 1 else element for text, element in pairs]


def _masked(value: Any, names: Names) -> Any:
    if isinstance(value, Own):
        return value.kind, value.around, [names.numbers.get((value.kind, each), -1) for each in value.values]
    return _each(value, lambda inner: _masked(inner, names))


def _tied(value: Any) -> Any:
    return replace(value, is_tied=True) if isinstance(value, Own) else _each(value, _tied)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: change(inner) for name, inner in value.items()}
    return [change(inner) for inner in value] if isinstance(value, list) else value


def same_own(ours: Own, theirs: Own, names: tuple[Names, Names]) -> bool:
    """Whether both brokers mean the same thing; what is new to both is the same from now on."""
    if (ours.kind, ours.around, len(ours.values)) != (theirs.kind, theirs.around, len(theirs.values)):
        return False
    is_tied = ours.is_tied and theirs.is_tied
    return all(
        _same(ours.kind, one, other, names, is_tied=is_tied)
        for one, other in zip(ours.values, theirs.values, strict=True)
    )


def _same(kind: str, ours: Hashable, theirs: Hashable, names: tuple[Names, Names], *, is_tied: bool) -> bool:
    left, right = (one.numbers for one in names)
    if (kind, ours) not in left and (kind, theirs) not in right:
        if is_tied:
            return True
        left[kind, ours] = right[kind, theirs] = len(left)
    return left.get((kind, ours), -1) == right.get((kind, theirs), -2)


def plain(schema: Schema, value: Any, version: int, names: Names) -> dict[str, Any]:
    """Fields that the version has, by name."""
    return {
        spec.name: _field(schema, spec, getattr(value, spec.name), version, names)
        for spec in schema.fields
        if spec.present(version)
    }


def _field(schema: Schema, spec: FieldSchema, value: Any, version: int, names: Names) -> Any:
    if spec.name in LEFT_OUT or f"{schema.name}.{spec.name}" in LEFT_OUT or value is None:
        return None
    special = None if f"{schema.name}.{spec.name}" in ECHOED else _SPECIAL.get(spec.name)
    if special is not None:
        return special(value, names)
    if isinstance(spec.type, Schema):
        return plain(spec.type, value, version, names)
    if isinstance(spec.type, Array):
        element = spec.type.element
        value = [each for each in value if _name_of(each) not in TOPICS_OF_KAFKA]
        if isinstance(element, Schema):
            made = [(names.order(each), plain(element, each, version, names)) for each in value]
            return sorted_plain(_merged(made), names)
        return [_scalar(each, names) for each in value]
    return _scalar(value, names)


def _name_of(element: Any) -> Any:
    return getattr(element, "name", None) or getattr(element, "topic", None) or getattr(element, "resource_name", None)


def _merged(made: list[tuple[list[str], dict[str, Any]]]) -> list[tuple[list[str], dict[str, Any]]]:
    """A topic that comes twice in a list, with some of its partitions each time, is shown once."""
    merged: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for key, element in made:
        partitions = next((name for name in PARTITIONS if name in element), None)
        if partitions is None:
            return made
        first = merged.setdefault(repr({**element, partitions: None}), (key, element))[1]
        if first is not element:
            first[partitions] = first[partitions] + element[partitions]
    for _, element in merged.values():
        for name in PARTITIONS:
            if name in element:
                element[name] = sorted(element[name], key=_position)
    return list(merged.values())


def _position(partition: dict[str, Any]) -> Any:
    return partition.get("partition_index", partition.get("index", 0))


def _scalar(value: Any, names: Names) -> Any:
    if isinstance(value, UUID):
        return Own("id", (str(value),)) if value.int else "-"
    if isinstance(value, str):
        found = tuple(UUID_IN_TEXT.findall(value))
        return Own("id", found, UUID_IN_TEXT.sub("*", value)) if found else value
    if isinstance(value, int) and value > 10**12 and abs(value - time.time() * 1000) < NOW_MS:
        return "now"
    return value


def _producer_id(value: int, names: Names) -> Any:
    return Own("producer", (value,)) if 0 < value < OWN_PRODUCER_IDS else value


def _numbered(kind: str) -> Callable[[int, Names], Any]:
    return lambda value, names: Own(kind, (value,)) if value else value


def _message(value: str, _: Names) -> str:
    return "in words" if value else "empty"


def _records(value: Any, names: Names) -> Any:
    """Each batch by its header and a digest of its records; a part of a batch by its size."""
    whole = bytes(value)
    shown: list[Any] = []
    end = 0
    try:
        for position, header in iterate_headers(whole):
            end = position + header.size_in_bytes
            if end > len(whole):
                end = position
                break
            fields = {name: getattr(header, name) for name in HEADER} | {
                "crc": crc_matches(whole, position, header),
                "producer_id": _producer_id(header.producer_id, names),
                "base_timestamp": _scalar(header.base_timestamp, names),
                "max_timestamp": _scalar(header.max_timestamp, names),
                "body": _digest(whole, position, header),
            }
            if header.codec:
                fields["length"] = "compressed"
            shown.append(fields)
    except (InvalidRecordsError, ValueError) as error:
        shown.append(f"not readable at {end}: {error}")
    return [*shown, f"{len(whole) - end}{MORE}"] if len(whole) > end else shown


def _digest(whole: bytes, position: int, header: Any) -> str:
    return hashlib.blake2b(batch_body(whole, position, header), digest_size=6).hexdigest()


ECHOED = {"WritableTxnMarkerResult.producer_id"}
"""What the script has made up itself."""
_SPECIAL: dict[str, Callable[[Any, Names], Any]] = {
    "producer_id": _producer_id,
    "session_id": _numbered("session"),
    "subscription_id": _numbered("subscription"),
    "error_message": _message,
    "batch_index_error_message": _message,
    "documentation": _message,
    "records": _records,
    "requested_metrics": lambda value, _: sorted(value),
}
