"""Data on the disks of stopped controllers, and its comparison with the expected data.

All data below the common end counts: the batches, the leaders in them, the resulting image.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwire.chunks import at_once
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.replay import Replay
from kwire.cluster.raft.control_batches import decode_control
from kwire.cluster.raft.snapshots import decode_snapshot, snapshots_in
from kwire.log.disk import RealDisk
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.metadata_records import (
    ProducerIdsRecord,
    RegisterBrokerRecord,
    decode_metadata_record,
)
from kwire.protocol.records import crc_matches, decode_batch, iterate_headers
from tests.cluster_processes.writers import Acknowledged, Block, Ledger, Registered


@dataclass(slots=True, kw_only=True)
class Stored:
    """Log of a controller below an end."""

    batches: dict[int, bytes] = field(default_factory=dict)
    """Batches by base offset."""
    leaders: dict[int, set[int]] = field(default_factory=dict)
    """Leaders by epoch, according to the leader change records."""
    written: Counter[Acknowledged] = field(default_factory=Counter)
    """Acknowledgements that the records correspond to."""
    image: MetadataImage = field(default_factory=MetadataImage)
    snapshot_end: int = 0
    """End offset of the newest snapshot."""
    problems: list[str] = field(default_factory=list)

    @property
    def begins_with_the_first_record(self) -> bool:
        return 0 in self.batches

    @property
    def begin(self) -> int:
        """Return the offset of the first batch; in an empty log, the end of the snapshot."""
        return min(self.batches, default=self.snapshot_end)

    @property
    def end(self) -> int:
        """Return the offset after the last batch."""
        if not self.batches:
            return self.snapshot_end
        last = self.batches[max(self.batches)]
        return next(header.next_offset for _, header in iterate_headers(last))


def read_stored(data: Path, end: int) -> Stored:
    """Return the batches and the image of a stopped controller."""
    stored = Stored()
    directory = data / METADATA_DIRECTORY
    content = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    for position, header in iterate_headers(content):
        if header.next_offset > end:
            break
        if not crc_matches(content, position, header):
            stored.problems.append(f"the batch at offset {header.base_offset} is damaged")
            break
        batch = content[position : position + header.size_in_bytes]
        stored.batches[header.base_offset] = batch
        _read_batch(stored, batch, epoch=header.partition_leader_epoch, is_control=header.is_control)
    _read_image(stored, directory, end)
    return stored


def _read_batch(stored: Stored, batch: bytes, *, epoch: int, is_control: bool) -> None:
    for record in decode_batch(batch, 0):
        if is_control:
            kind, message = decode_control(record)
            if kind == ControlRecordType.LEADER_CHANGE:
                stored.leaders.setdefault(epoch, set()).add(message.leader_id)
            continue
        decoded = decode_metadata_record(record.value or b"")
        if isinstance(decoded, RegisterBrokerRecord):
            stored.written[Registered(decoded.broker_id, decoded.incarnation_id, decoded.broker_epoch)] += 1
        elif isinstance(decoded, ProducerIdsRecord):
            end = decoded.next_producer_id
            stored.written[Block(decoded.broker_id, end - 1000, end)] += 1


def _read_image(stored: Stored, directory: Path, end: int) -> None:
    """Build the image from the newest snapshot; a complete log must give the same image without a snapshot."""
    begin, replay = 0, Replay()
    snapshot_ids = [each for each in snapshots_in(RealDisk(), str(directory)) if 0 < each.offset <= end]
    if snapshot_ids:
        newest = snapshot_ids[-1]
        name = f"{newest.offset:020d}-{newest.epoch:010d}.checkpoint"
        records = decode_snapshot((directory / name).read_bytes()).records
        replay.restart(MetadataImage().apply(records, offset=newest.offset - 1, epoch=newest.epoch))
        begin = stored.snapshot_end = newest.offset
    log = b"".join(stored.batches.values())
    at_once(replay.feed(log, begin=begin, end=end))
    stored.image = _undated(replay.image)
    if begin and stored.begins_with_the_first_record:
        whole = Replay()
        at_once(whole.feed(log, begin=0, end=end))
        if _undated(whole.image) != stored.image:
            stored.problems.append(f"the snapshot at {begin} and the log before it say different things")


def _undated(image: MetadataImage) -> MetadataImage:
    """Return the image without its offset: after a snapshot, an image lacks the record that led to its state."""
    return dataclasses.replace(image, offset=-1, epoch=0)


# --- comparison


def compare(stored: Mapping[int, Stored], seen_leaders: Mapping[int, int], ledger: Ledger, end: int) -> list[str]:
    """Return the problems of the controllers' logs and images, by node."""
    found = [f"node {node}: {problem}" for node, one in stored.items() for problem in one.problems]
    first_node, first = next(iter(stored.items()))
    for node, one in stored.items():
        if one.end != end:
            found.append(f"node {node}: its log ends at {one.end}, {end} is committed")
        shared = first.batches.keys() & one.batches.keys()
        low = max(first.begin, one.begin)
        differing = {at for at in first.batches.keys() ^ one.batches.keys() if at >= low}
        differing |= {at for at in shared if first.batches[at] != one.batches[at]}
        if differing:
            found.append(f"the logs of {first_node} and {node} differ from offset {min(differing)} on")
        if one.image != first.image:
            found.append(f"the images of {first_node} and {node} differ")
        found += [f"node {node}: {problem}" for problem in _losses(one, ledger)]
    return found + _second_leaders(stored.values(), seen_leaders) + _doubles(ledger)


def _losses(stored: Stored, ledger: Ledger) -> list[str]:
    found = []
    if stored.begins_with_the_first_record:
        times = ((one, stored.written[one]) for one in ledger.acknowledged)
        found += [f"{one} was acknowledged and is there {count} times" for one, count in times if count != 1]
    for broker in ledger.brokers:
        known = stored.image.brokers.get(broker.broker_id)
        if known is None or (known.incarnation_id, known.broker_epoch) != (broker.incarnation_id, broker.broker_epoch):
            found.append(f"the image has {known} instead of {broker}")
    last = max((block.end for block in ledger.blocks), default=0)
    if stored.image.next_producer_id < last:
        found.append(f"the image gives producer id {stored.image.next_producer_id} out again, {last} was next")
    return found


def _second_leaders(stored: Iterable[Stored], seen_leaders: Mapping[int, int]) -> list[str]:
    leaders: dict[int, set[int]] = {}
    for one in stored:
        for epoch, ids in one.leaders.items():
            leaders.setdefault(epoch, set()).update(ids)
    for epoch, leader in seen_leaders.items():
        leaders.setdefault(epoch, set()).add(leader)
    return [f"epoch {epoch} has the leaders {sorted(ids)}" for epoch, ids in leaders.items() if len(ids) > 1]


def _doubles(ledger: Ledger) -> list[str]:
    begins = Counter(block.begin for block in ledger.blocks)
    return [
        f"the producer ids from {begin} on were given out {count} times" for begin, count in begins.items() if count > 1
    ]
