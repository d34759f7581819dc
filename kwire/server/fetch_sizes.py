"""Size of a fetch's answer, as consumer_byte_rate counts it."""

from __future__ import annotations

from functools import cache
from typing import Final

from kwire.chunks import Pieces
from kwire.protocol.framing import PiecesFramer, pieces_framer
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.schema import schema_of

_CORRELATION_ID_BYTES: Final = 4


def answer_bytes(response: FetchResponse, version: int) -> Pieces[int]:
    """What Kafka takes for an answer's size: its body and the length in front."""
    header_bytes = _CORRELATION_ID_BYTES + (version in schema_of(FetchResponse).flexible)
    buffers = yield from _framer(version)(0, response)
    return sum(len(buffer) for buffer in buffers) - header_bytes


@cache
def _framer(version: int) -> PiecesFramer:
    return pieces_framer(FetchResponse, version)
