"""Compression codecs: round trips, framings of other implementations, and decompression bombs."""

from __future__ import annotations

import gzip
import struct
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.protocol.compression import (
    CODEC_NAMES,
    Codec,
    CompressionError,
    DecompressedTooLargeError,
    compress,
    decompress,
)

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]


@given(st.binary(max_size=3000), st.sampled_from(list(Codec)))
def test_round_trip(data, codec):
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 32 * 1024 + 1, 3_000_000])
def test_round_trip_of_sizes(codec, size):
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    packed = compress(codec, data)
    assert decompress(codec, packed, size) == data
    assert decompress(codec, memoryview(packed)) == data


@pytest.mark.parametrize("codec", list(CODEC_NAMES))
def test_names_are_kafkas(codec):
    assert CODEC_NAMES[codec].name.lower() in (codec, "none")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_row_43_decompression_stops_at_the_size_limit(codec):
    packed = compress(codec, bytes(1_000_000))
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, packed, 999_999)
    assert len(decompress(codec, packed, 1_000_000)) == 1_000_000


@pytest.mark.parametrize("codec", COMPRESSING)
def test_row_57_truncated_data_is_rejected(codec):
    packed = compress(codec, bytes(range(256)) * 40)
    for length in (1, 5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CompressionError):
            decompress(codec, packed[:length])


@given(st.binary(min_size=1, max_size=200), st.sampled_from(COMPRESSING))
def test_row_57_noise_ends_in_an_error_or_a_value(data, codec):
    try:
        assert len(decompress(codec, data, 100_000)) <= 100_000
    except CompressionError:
        return


def test_gzip_is_compatible_with_the_standard_library():
    assert gzip.decompress(compress(Codec.GZIP, b"three")) == b"three"
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    with pytest.raises(CompressionError):
        decompress(Codec.GZIP, zlib.compress(b"no gzip"))


def test_snappy_with_and_without_javas_framing():
    data = b"abc" * 50_000
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Codec.SNAPPY, raw) == data
    packed = compress(Codec.SNAPPY, data)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    blocks = raw[:0] + packed[:16] + struct.pack(">i", len(raw)) + raw
    assert decompress(Codec.SNAPPY, blocks) == data


def test_snappy_length_fields_are_not_trusted():
    header = compress(Codec.SNAPPY, b"")[:16]
    for block in (struct.pack(">i", 100) + b"x", struct.pack(">i", -1), b"\x00\x00"):
        with pytest.raises(CompressionError):
            decompress(Codec.SNAPPY, header + block)
    declares_4_gib = b"\xff\xff\xff\xff\x0f" + b"\x00" * 10
    with pytest.raises(CompressionError):
        decompress(Codec.SNAPPY, declares_4_gib)


def test_a_zstd_frame_cannot_ask_for_a_huge_window():
    window_of_2_gib = b"\x28\xb5\x2f\xfd" + bytes([0x00, (31 - 10) << 3]) + b"\x01\x00\x00"
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.ZSTD, window_of_2_gib, 1000)


def test_lz4_frames_are_what_java_reads():
    """Java's reader accepts only version 1 with independent blocks."""
    packed = compress(Codec.LZ4, b"x" * 100_000)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0xC0 == 0x40
    assert packed[4] & 0x20
