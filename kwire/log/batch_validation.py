"""Validation of batches before they are stored: Kafka's checks on the produce path, with Kafka's error codes.

Checks for every batch: sizes, magic, CRC, count = last offset delta + 1, no control records from clients, a sequence
number with a producer id, timestamps within the topic's bounds. The records of an uncompressed batch are parsed, so
that a client cannot store a batch that breaks every consumer. A compressed batch is decompressed only if its header is
not enough to apply the topic's configuration: keys that a compacted topic needs, a bound on old timestamps, another
compression.type.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from crc32c import crc32c

from kwire.log.batch_opening import (
    OPENED_AT_ONCE_BYTES_MAX,
    PACKED_AT_ONCE_BYTES_MAX,
    needs_decompression,
    open_body,
    open_small_body,
    pack,
    target_codec,
)
from kwire.log.config import INT64_MAX, LogConfig
from kwire.log.large_batches import LargeBatches
from kwire.log.record_walk import (
    PLAIN_RECORDS_MAX,
    RecordFault,
    WalkRules,
    walk_plain,
    walk_records,
)
from kwire.protocol.compression import Codec
from kwire.protocol.control_records import decode_marker
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_FLAG,
    LENGTH_OVERHEAD,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    OFFSET_AND_LENGTH,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    InvalidRecordsError,
    assemble_batch,
    crc_matches,
    iterate_headers,
    parse_header,
    read_header,
    set_max_timestamp,
)

T = TypeVar("T")

MAGIC: Final = 2
COPIED_BYTES_MAX: Final = 4096
LENGTH_LEAST: Final = 14
"""The smallest batch length of any format: magic 0 without a record."""

_NOT_PLAIN_FLAGS: Final = CODEC_MASK | TIMESTAMP_TYPE_FLAG | CONTROL_FLAG


Steps = Generator[Awaitable[Any] | None, Any, T]
"""Work in steps: yields None where other tasks may run, or an awaitable whose result the caller sends back."""


class AppendOrigin(Enum):
    """Origin of an append; it decides which checks apply and whether the leader assigns the offsets."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"


_CLIENT: Final = AppendOrigin.CLIENT


def check_frame(batch: bytes) -> BatchHeader:
    """Return the header of a batch that a leader is to append.

    Raises KafkaError unless the bytes are one whole batch.
    """
    size = len(batch)
    if size < BATCH_HEADER_BYTES:
        _reject_fragment(batch)
    header = read_header(batch, 0)
    if header.magic != 2 or header.length + LENGTH_OVERHEAD != size:
        _reject_frame(header, size)
    return header


def check_assigned_offsets(
    batches: memoryview, next_offset: int, leader_epoch: int | None
) -> list[tuple[int, BatchHeader]]:
    """Return (position, header) of each whole batch from a leader or a raft leader; skip a partial last batch.

    leader_epoch is the epoch that all batches must have, None for any epoch. Raises KafkaError for a corrupt batch, an
    offset below next_offset, or another leader epoch.
    """
    try:
        headers = list(iterate_headers(batches))
    except InvalidRecordsError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    for position, header in headers:
        if header.magic != 2 or not crc_matches(batches, position, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"batch {header.base_offset}..{header.last_offset} does not follow offset {next_offset}",
            )
        if header.attributes & CONTROL_FLAG and header.producer_id != NO_PRODUCER_ID:
            _check_marker(batches[position : position + header.size_in_bytes], header)
        if leader_epoch is not None and header.partition_leader_epoch != leader_epoch:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a raft leader's batch has another leader epoch")
        next_offset = header.next_offset
    return headers


def _check_marker(batch: memoryview, header: BatchHeader) -> None:
    """Validate a transaction marker before it is stored, because the log must be able to replay it."""
    try:
        decode_marker(batch)
    except InvalidRecordsError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the marker at offset {header.base_offset}: {error}") from error


def _reject_frame(header: BatchHeader, size: int) -> NoReturn:
    if header.length < LENGTH_LEAST:
        _reject_length(header.length)
    if header.magic != 2:
        _reject_magic(header.magic)
    if header.length < BATCH_HEADER_BYTES - LENGTH_OVERHEAD:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {header.length} is smaller than a batch header")
    if header.size_in_bytes > size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there must be at least one whole record batch per partition")
    raise KafkaError(ErrorCode.INVALID_RECORD, "there must be exactly one record batch per partition")


def _reject_fragment(batch: bytes) -> NoReturn:
    """Raise the error for data shorter than a header.

    Length and magic are checked first, as far as they are present, as in Kafka's ByteBufferLogInputStream.
    """
    if len(batch) >= LENGTH_OVERHEAD:
        _, length = OFFSET_AND_LENGTH.unpack_from(batch)
        if length < LENGTH_LEAST:
            _reject_length(length)
        if len(batch) > MAGIC_POSITION:
            magic = batch[MAGIC_POSITION]
            if magic not in (0, 1, 2):
                _reject_magic(magic)
            if length + LENGTH_OVERHEAD <= len(batch):
                if magic != 2:
                    _reject_magic(magic)
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is smaller than a batch header")
    raise KafkaError(ErrorCode.INVALID_RECORD, "there must be at least one whole record batch per partition")


def _reject_length(length: int) -> NoReturn:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is smaller than any header")


def _reject_magic(magic: int) -> NoReturn:
    if magic in (0, 1):
        raise KafkaError(ErrorCode.INVALID_RECORD, "only record batches with magic version 2 are accepted")
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"invalid magic {magic} in a record batch")


class ValidatedBatch(NamedTuple):
    """Batch that was validated in steps, before its append."""

    batch: bytes
    header: BatchHeader
    config: LogConfig
    """The topic's configuration at the time of the validation."""


Validated = ValidatedBatch | KafkaError
"""Result of a validation in steps. An error is raised only when the batch would be appended."""


def needs_steps(batch: bytes, config: LogConfig, now_ms: int) -> bool:
    """Return True if each record of a client's batch must be checked and the batch may have many records."""
    if len(batch) < BATCH_HEADER_BYTES or batch[MAGIC_POSITION] != MAGIC:
        return False
    header = read_header(batch, 0)
    if header.attributes & CODEC_MASK > Codec.ZSTD or header.attributes & CONTROL_FLAG:
        return False  # rejected
    if header.codec is target_codec(header, config):
        if header.codec is Codec.NONE:
            return header.record_count > PLAIN_RECORDS_MAX
        return needs_decompression(header, config, now_ms)
    return True


def validate_in_steps(batch: bytes, config: LogConfig, now_ms: int, large_batches: LargeBatches) -> Steps[Validated]:
    """Validate a client's batch as `validate_batch` does, a few records at a time."""
    try:
        header = check_frame(batch)
        _check_header(batch, header, config, _CLIENT)
        batch, header = yield from _check_and_convert(batch, header, config, now_ms, large_batches)
    except KafkaError as error:
        return error.without_traceback()
    return ValidatedBatch(batch, header, config)


def prepare_batch(
    batch: bytes, config: LogConfig, origin: AppendOrigin, now_ms: int, validated: Validated | None
) -> tuple[bytes, BatchHeader]:
    """Return a batch that is prepared for its append: the validated one, or `batch` after its validation.

    Raises KafkaError REQUEST_TIMED_OUT, which producers retry, if it was validated for another configuration.
    """
    if validated is None:
        return validate_batch(batch, check_frame(batch), config, origin, now_ms)
    if isinstance(validated, KafkaError):
        raise validated.without_traceback()
    if validated.config is not config:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the topic's configuration changed meanwhile")
    return _stamp(validated.batch, validated.header, config, validated.header.max_timestamp, now_ms)


def validate_batch(
    batch: bytes,
    header: BatchHeader,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
) -> tuple[bytes, BatchHeader]:
    """Validate one batch from a client or coordinator.

    Return it as it will be stored, except for base offset and leader epoch.
    """
    _check_header(batch, header, config, origin)
    if config.stores_plain_batches_as_they_are and not header.attributes & _NOT_PLAIN_FLAGS:
        span = walk_plain(batch, header.record_count, config.is_compacted, start=BATCH_HEADER_BYTES)
        base_timestamp = header.base_timestamp
        if (
            span is not None
            and base_timestamp + span[1] == header.max_timestamp <= now_ms + config.message_timestamp_after_max_ms
            and base_timestamp + span[0] >= now_ms - config.message_timestamp_before_max_ms
        ):
            return batch, header
    return _validate_thoroughly(batch, header, config, now_ms)


def _check_header(batch: bytes, header: BatchHeader, config: LogConfig, origin: AppendOrigin) -> None:
    attributes, count = header.attributes, header.record_count
    if header.length + LENGTH_OVERHEAD > config.max_message_bytes:
        if origin is _CLIENT and header.base_offset:
            _check_client_header(header)
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size_in_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if _crc(batch) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch's CRC is not {header.crc}")
    if origin is _CLIENT and (
        header.base_offset
        or count <= 0
        or header.last_offset_delta + 1 != count
        or attributes & CONTROL_FLAG
        or header.producer_id != NO_PRODUCER_ID
    ):
        _check_client_header(header)


def _crc(batch: bytes) -> int:
    """Return the CRC of a batch. For a small batch, a copy is cheaper than a memoryview."""
    if len(batch) < COPIED_BYTES_MAX:
        return crc32c(batch[ATTRIBUTES_POSITION:])
    return crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])


def _validate_thoroughly(
    batch: bytes, header: BatchHeader, config: LogConfig, now_ms: int
) -> tuple[bytes, BatchHeader]:
    """Validate a batch that the fast path for plain batches does not handle."""
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    if header.attributes & CONTROL_FLAG:
        # A broker wrote this batch: it has no user records and is stored uncompressed, as received.
        return _stamp(batch, header, config, header.max_timestamp, now_ms)
    if codec and header.codec is target_codec(header, config) and not needs_decompression(header, config, now_ms):
        return _stamp(batch, header, config, header.max_timestamp, now_ms)
    return _run_to_end(_check_and_convert(batch, header, config, now_ms, None))


def _check_client_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch's base offset should be 0, not {header.base_offset}")
    if header.last_offset_delta < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch's last offset delta is {header.last_offset_delta}")
    if header.record_count <= 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch declares {header.record_count} records")
    if header.last_offset_delta + 1 != header.record_count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the batch declares {header.record_count} records and a last offset delta of {header.last_offset_delta}",
        )
    if header.attributes & CONTROL_FLAG:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control records")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"sequence number {header.base_sequence} with a producer id")


def _check_records(body: bytes, header: BatchHeader, config: LogConfig, now_ms: int) -> Generator[None, None, int]:
    """Parse the records, some at a time, and return their largest timestamp."""
    rules = WalkRules(
        needs_key=config.is_compacted,
        oldest=NO_TIMESTAMP,
        newest=INT64_MAX,
        fixed_timestamp=header.max_timestamp if header.is_log_append_time else None,
    )
    if not config.is_log_append_time:
        rules.oldest = now_ms - config.message_timestamp_before_max_ms
        # A record's timestamp must fit into the header's field, even if the topic allows any timestamp.
        rules.newest = min(now_ms + config.message_timestamp_after_max_ms, INT64_MAX)
    elif header.is_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "producers must not set the timestamp type to LogAppendTime")
    faults: list[RecordFault] = []
    try:
        max_timestamp = yield from walk_records(body, header.record_count, header.base_timestamp, rules, faults)
    except InvalidRecordsError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    if faults:
        _reject_records(faults)
    return max_timestamp


def _run_to_end(steps: Steps[T]) -> T:
    """Return the result of steps that yield no awaitable."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def _reject_records(faults: list[RecordFault]) -> NoReturn:
    """Raise the error code of the first record's fault, and list all faults, as Kafka does (KIP-467)."""
    code, what = ErrorCode.INVALID_RECORD, f"{len(faults)} record errors in total"
    if faults[0].is_timestamp:
        code, what = ErrorCode.INVALID_TIMESTAMP, "invalid timestamp"
    raise KafkaError(
        code,
        f"One or more records have been rejected due to {what}",
        record_errors=[(fault.batch_index, fault.message) for fault in faults],
    )


def _check_and_convert(
    batch: bytes, header: BatchHeader, config: LogConfig, now_ms: int, large_batches: LargeBatches | None
) -> Steps[tuple[bytes, BatchHeader]]:
    """Check each record, and convert the batch to the topic's codec; a large batch occupies a place in `large_batches`.

    Without `large_batches` the steps yield no awaitable and do all the work themselves.
    """
    target = target_codec(header, config)
    packed: bytes | None = None
    body = _small_body(batch, header, target) if large_batches is not None else _body(batch, header, config)
    if body is not None or large_batches is None:
        assert body is not None
        max_timestamp = yield from _check_records(body, header, config, now_ms)
        if header.codec is not target:
            packed = pack(body, target, config)
    else:
        yield large_batches.acquire()
        try:
            # Allocate only now: memory of a batch that waits for its place would not be accounted for.
            if header.codec is Codec.NONE:
                body = batch[BATCH_HEADER_BYTES:]
            else:
                body = yield large_batches.run(partial(_body, batch, header, config))
            max_timestamp = yield from _check_records(body, header, config, now_ms)
            if header.codec is not target:
                packed = yield large_batches.run(partial(pack, body, target, config))
        finally:
            large_batches.release()
    if packed is not None:
        batch, header = _packed(batch, packed, config, target)
    return _stamp(batch, header, config, max_timestamp, now_ms)


def _body(batch: bytes, header: BatchHeader, config: LogConfig) -> bytes:
    return batch[BATCH_HEADER_BYTES:] if header.codec is Codec.NONE else open_body(batch, header, config)


def _small_body(batch: bytes, header: BatchHeader, target: Codec) -> bytes | None:
    """Return the plain records if they can be checked and compressed within a few milliseconds, otherwise None."""
    if header.record_count > PLAIN_RECORDS_MAX:
        return None
    body = batch[BATCH_HEADER_BYTES:] if header.codec is Codec.NONE else open_small_body(batch, header)
    bytes_max = OPENED_AT_ONCE_BYTES_MAX if header.codec is target else PACKED_AT_ONCE_BYTES_MAX
    return body if body is not None and len(body) <= bytes_max else None


def _packed(batch: bytes, packed: bytes, config: LogConfig, codec: Codec) -> tuple[bytes, BatchHeader]:
    header = parse_header(batch)
    header.attributes = header.attributes & ~CODEC_MASK | codec
    converted = bytes(assemble_batch(header, packed))
    header = parse_header(converted)
    if header.size_in_bytes > config.max_message_bytes:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "the batch is too large in the topic's compression.type")
    return converted, header


def _stamp(
    batch: bytes, header: BatchHeader, config: LogConfig, max_timestamp: int, now_ms: int
) -> tuple[bytes, BatchHeader]:
    """Set the timestamp type that the topic requires, and the max timestamp that matches the records."""
    log_append_time = config.is_log_append_time
    stamp = now_ms if log_append_time else max_timestamp
    if header.max_timestamp == stamp and bool(header.attributes & TIMESTAMP_TYPE_FLAG) == log_append_time:
        return batch, header
    stamped = bytearray(batch)
    set_max_timestamp(stamped, 0, header, log_append_time=log_append_time, max_timestamp=stamp)
    return bytes(stamped), parse_header(stamped)
