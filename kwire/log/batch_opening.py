"""Decompression and compression during batch validation: when they are needed, and their size limits."""

from __future__ import annotations

from typing import Final

from kwire.log.config import INT64_MAX, LogConfig
from kwire.protocol.compression import CODEC_NAMES, Codec, CompressionError, DecompressedTooLargeError, compress
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import BatchHeader, batch_body

OPENED_AT_ONCE_BYTES_MAX: Final = 256 * 1024
"""Largest body that is decompressed on the event loop; it takes about 1 ms."""
PACKED_AT_ONCE_BYTES_MAX: Final = 8 * 1024
"""Largest body that is compressed on the event loop; at zstd's highest level it takes 2 ms."""
DECOMPRESSED_FACTOR: Final = 8
"""A decompressed batch may have this many times max.message.bytes ..."""
DECOMPRESSED_BYTES_MIN: Final = 8 * 1024**2
"""... or this size, if larger, so that small limits do not reject valid text that compresses well ..."""
DECOMPRESSED_BYTES_LIMIT: Final = 64 * 1024**2
"""... but never more than this size, which bounds the memory that one request can allocate."""


def target_codec(header: BatchHeader, config: LogConfig) -> Codec:
    """Return the codec in which the topic stores the batch. The header's own codec must be a known one."""
    return header.codec if config.compression_type == "producer" else CODEC_NAMES[config.compression_type]


def needs_decompression(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Return True if a batch that keeps its codec must be decompressed to check its records.

    The header suffices as long as its base and max timestamp are within the topic's bounds.
    """
    if config.is_compacted:
        return True
    if config.is_log_append_time:
        return header.is_log_append_time
    newest = now_ms + config.message_timestamp_after_max_ms
    return (
        config.message_timestamp_before_max_ms != INT64_MAX
        or not 0 < header.base_timestamp <= header.max_timestamp <= newest
    )


def open_body(batch: bytes, header: BatchHeader, config: LogConfig) -> bytes:
    """Return the batch's records, decompressed.

    Raises KafkaError MESSAGE_TOO_LARGE if they exceed the limit, CORRUPT_MESSAGE if decompression fails.
    """
    bytes_max = min(
        DECOMPRESSED_BYTES_LIMIT, max(DECOMPRESSED_BYTES_MIN, DECOMPRESSED_FACTOR * config.max_message_bytes)
    )
    try:
        return batch_body(batch, 0, header, bytes_max)
    except DecompressedTooLargeError as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def open_small_body(batch: bytes, header: BatchHeader) -> bytes | None:
    """Return the batch's records, decompressed; None if they exceed OPENED_AT_ONCE_BYTES_MAX.

    Raises KafkaError CORRUPT_MESSAGE if decompression fails.
    """
    try:
        return batch_body(batch, 0, header, OPENED_AT_ONCE_BYTES_MAX)
    except DecompressedTooLargeError:
        return None
    except CompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def pack(body: bytes, target: Codec, config: LogConfig) -> bytes:
    """Compress the records with the target codec at the level from the topic's configuration."""
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return bytes(compress(target, body, levels.get(target)))
