"""Reads of a partition as a read_committed consumer: up to the last stable offset, without aborted records."""

from __future__ import annotations

from kwire.cluster.partitions.partition import READ_COMMITTED, Partition
from kwire.protocol.records import BatchHeader, decode_batch, iterate_headers
from tests.log.searching import aborted_transactions


def committed_values(partition: Partition) -> list[bytes]:
    """Return the committed values as a consumer derives them from the aborted transactions in a fetch response."""
    log = partition.log
    end = partition.end_offset(READ_COMMITTED)
    aborted = aborted_transactions(log, log.log_start_offset, end)
    values: list[bytes] = []
    offset = log.log_start_offset
    while offset < end:
        data = log.read(offset, 1 << 20, limit_offset=end)
        for position, header in iterate_headers(data):
            offset = header.next_offset
            if header.is_control or _is_in(header, [each[:3] for each in aborted]):
                continue
            values += [record.value or b"" for record in decode_batch(data, position)]
    return values


def _is_in(header: BatchHeader, aborted: list[tuple[int, int, int]]) -> bool:
    return header.is_transactional and any(
        header.producer_id == producer_id and first <= header.base_offset < last for producer_id, first, last in aborted
    )
