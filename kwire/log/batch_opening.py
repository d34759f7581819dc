"""What a codec does for the validation of a batch: when it is asked, and within which bounds."""

from __future__ import annotations

from typing import Final

from kwire.log.config import INT64_MAX, LogConfig
from kwire.protocol.compression import CODEC_NAMES, Codec, CompressionError, DecompressedTooLargeError, compress
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import BatchHeader, batch_body

OPENED_AT_ONCE_BYTES_MAX: Final = 256 * 1024
"""Largest body that is decompressed on the event loop, which takes about a millisecond."""
PACKED_AT_ONCE_BYTES_MAX: Final = 8 * 1024
"""Largest body that is compressed on the event loop: with the highest level of zstd 2 ms."""
DECOMPRESSED_FACTOR: Final = 8
"""A batch may grow to this many times max.message.bytes when it is opened ..."""
DECOMPRESSED_BYTES_LEAST: Final = 8 * 1024**2
"""... or to this, if that is more: small limits must not refuse honest text that compresses well ..."""
DECOMPRESSED_BYTES_MOST: Final = 64 * 1024**2
"""... but never beyond this, which bounds what one request can make the broker allocate."""


def target_codec(header: BatchHeader, config: LogConfig) -> Codec:
    """What the topic stores the batch in. The header's own codec must be a known one."""
    return header.codec if config.compression_type == "producer" else CODEC_NAMES[config.compression_type]


def must_open(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the records of a batch must be looked at that stays in its codec.

    The header answers for them while what it says can be: the first one's timestamp, then the largest.
    """
    if config.needs_keys:
        return True
    if config.is_log_append_time:
        return header.is_log_append_time
    newest = now_ms + config.message_timestamp_after_max_ms
    return (
        config.message_timestamp_before_max_ms != INT64_MAX
        or not 0 < header.base_timestamp <= header.max_timestamp <= newest
    )


def open_body(batch: bytes, header: BatchHeader, config: LogConfig) -> bytes:
    """The records as plain bytes; MESSAGE_TOO_LARGE when they are too many, CORRUPT_MESSAGE when the codec refuses."""
    bytes_max = min(
        DECOMPRESSED_BYTES_MOST, max(DECOMPRESSED_BYTES_LEAST, DECOMPRESSED_FACTOR * config.max_message_bytes)
    )
    try:
        return batch_body(batch, 0, header, bytes_max)
    except DecompressedTooLargeError as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def open_small_body(batch: bytes, header: BatchHeader) -> bytes | None:
    """The records as plain bytes; None when they are more than OPENED_AT_ONCE_BYTES_MAX."""
    try:
        return batch_body(batch, 0, header, OPENED_AT_ONCE_BYTES_MAX)
    except DecompressedTooLargeError:
        return None
    except CompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def pack(body: bytes, target: Codec, config: LogConfig) -> bytes:
    """The records as the topic stores them."""
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return bytes(compress(target, body, levels.get(target)))
