"""Requests that this node sends, and responses that it reads: equal bytes in steps and at once."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.protocol.codec import encode
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.framing import encode_response
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.requesting import (
    frame_request,
    frame_request_in_pieces,
    parse_response,
    parse_response_in_pieces,
)
from kwire.protocol.schema import schema_of
from tests.support.loop_steps import LINES_MAX, longest_step_of, needs_lines

MANY = 5000


def result_of(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def requested(count: int) -> CreateTopicsRequest:
    names = [f"topic-{number}" for number in range(count)]
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1) for name in names])


def answered(count: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=f"topic-{number}") for number in range(count)])


@pytest.mark.parametrize("version", list(schema_of(CreateTopicsRequest).versions))
@pytest.mark.parametrize("client_id", [None, "", "clïent"])
def test_a_request_is_the_same_in_pieces(version: int, client_id: str | None) -> None:
    request = requested(300)
    at_once = frame_request(request, version, 7, client_id)
    assert result_of(frame_request_in_pieces(request, version, 7, client_id)) == at_once


@pytest.mark.parametrize("version", list(schema_of(CreateTopicsResponse).versions))
def test_a_response_is_the_same_in_pieces(version: int) -> None:
    frame = b"".join(encode_response(7, answered(300), version))[4:]
    assert result_of(parse_response_in_pieces(CreateTopicsRequest, version, frame)) == (7, answered(300))
    assert parse_response(CreateTopicsRequest, version, frame) == (7, answered(300))


def test_the_answer_to_api_versions_has_the_oldest_header() -> None:
    body = bytearray()
    encode(ApiVersionsResponse(error_code=35), 3, body)
    frame = (7).to_bytes(4, "big") + bytes(body)
    assert result_of(parse_response_in_pieces(ApiVersionsRequest, 3, frame))[1].error_code == 35


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\7\0\x7f"])
def test_a_truncated_response_is_rejected(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        result_of(parse_response_in_pieces(CreateTopicsRequest, 7, frame))


@needs_lines
def test_a_step_does_not_grow_with_the_elements() -> None:
    frame = b"".join(encode_response(7, answered(MANY), 7))[4:]
    result_of(frame_request_in_pieces(requested(1), 7, 1, None))  # compiles the codec
    assert longest_step_of(frame_request_in_pieces(requested(MANY), 7, 1, None)) < LINES_MAX / 4
    assert longest_step_of(parse_response_in_pieces(CreateTopicsRequest, 7, frame)) < LINES_MAX / 4
