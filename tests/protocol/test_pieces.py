"""Codecs in steps: same results as the others, with pauses in the right places."""

import random
from collections.abc import Generator
from typing import Any, TypeVar
from uuid import UUID

import pytest

from kwire.protocol.codec import PiecesDecoder, PiecesEncoder, decode_prefix, encode, pieces_decoder, pieces_encoder
from kwire.protocol.error_codes import EncodeError, ProtocolError
from kwire.protocol.framing import encode_response, pieces_framer
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchPartitionData, FetchResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.schema import Schema
from kwire.protocol.source import STEPS

from .mutations import mutate
from .samples import sample_bytes
from .strategies import all_versions, name_of

T = TypeVar("T")

exchanged = [(schema, version) for schema, version in all_versions() if schema.kind in ("request", "response")]
each_version = pytest.mark.parametrize(("schema", "version"), exchanged, ids=name_of)


def run(pieces: Generator[None, None, T]) -> tuple[T, int]:
    """Return the result and the number of pauses."""
    stops = 0
    try:
        while True:
            next(pieces)
            stops += 1
    except StopIteration as end:
        return end.value, stops


@each_version
def test_codecs_in_steps_equal_the_plain_codecs(schema: Schema, version: int) -> None:
    random_source = random.Random(f"{schema.name} {version}")
    decode_in_pieces: PiecesDecoder[Any] = pieces_decoder(schema.cls, version)
    encode_in_pieces: PiecesEncoder[Any] = pieces_encoder(schema.cls, version)
    sample = sample_bytes(schema, version, random_source)
    for frame in (sample, *(mutate(sample, random_source) for _ in range(10))):
        try:
            expected: Any = decode_prefix(schema.cls, version, frame)
        except ProtocolError as error:
            with pytest.raises(ProtocolError) as caught:
                run(decode_in_pieces(frame, 0))
            assert str(caught.value) == str(error)
            continue
        assert run(decode_in_pieces(frame, 0))[0] == expected
        written, expected_bytes = bytearray(), bytearray()
        encode(expected[0], version, expected_bytes)
        run(encode_in_pieces(expected[0], written, None))
        assert written == expected_bytes


def topics(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(count)])


@pytest.mark.parametrize("count", [0, 1, STEPS - 1, STEPS, 10 * STEPS + 1])
def test_codecs_in_steps_pause_after_each_step(count: int) -> None:
    frame = bytearray()
    encode(topics(count), 12, frame)
    (request, _), stops = run(pieces_decoder(MetadataRequest, 12)(frame, 0))
    assert (request, stops) == (topics(count), count // STEPS)
    out = bytearray()
    assert run(pieces_encoder(MetadataRequest, 12)(request, out, None)) == (None, count // STEPS)
    assert out == frame


def test_decoding_in_steps_pauses_in_lists_of_ids() -> None:
    request = BrokerHeartbeatRequest(offline_log_dirs=[UUID(int=number) for number in range(1, 3 * STEPS)])
    frame = bytearray()
    encode(request, 1, frame)
    assert run(pieces_decoder(BrokerHeartbeatRequest, 1)(frame, 0)) == ((request, len(frame)), 2)


def test_encoding_in_steps_rejects_an_invalid_message() -> None:
    bad = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    with pytest.raises(EncodeError, match=r"^MetadataRequest v1: "):
        run(pieces_encoder(MetadataRequest, 1)(bad, bytearray(), None))


def test_a_response_framed_in_steps_equals_the_plain_frame() -> None:
    data = [FetchPartitionData(partition_index=number, records=b"batch") for number in range(2 * STEPS)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])
    buffers, stops = run(pieces_framer(FetchResponse, 11)(7, response))
    assert stops == 2
    assert b"".join(buffers) == b"".join(encode_response(7, response, 11))
