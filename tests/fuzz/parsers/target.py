"""Fuzz target: a parser, the errors that it may raise, and its limits.

A target reads one input. It may raise its own errors, which reject the input. Any other exception is a fault of the
parser, also AssertionError, with which a target reports a wrong result. Steps and memory are bounded by the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

STEPS_BASE: Final = 20_000
"""Lines of Python code that each input may execute."""
STEPS_FOR_EACH_BYTE: Final = 200
MEMORY_BASE: Final = 4 * 1024 * 1024
"""Bytes that each input may allocate."""
MEMORY_FOR_EACH_BYTE: Final = 200


class Target(NamedTuple):
    """Target: its name, the parser, the errors with which it rejects an input, and its first inputs."""

    name: str
    parse: Callable[[bytes], object]
    rejections: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]
    expands_to: int = 0
    """Largest size that the parser may decompress an input to."""

    def check(self, data: bytes) -> str:
        """Parse one input; return its outcome. Raises what the parser must not raise."""
        try:
            self.parse(data)
        except self.rejections as error:
            return f"{type(error).__name__}: {error}"
        return "accepted"

    def steps_max(self, data: bytes) -> int:
        return STEPS_BASE + STEPS_FOR_EACH_BYTE * (len(data) + self.expands_to)

    def memory_max(self, data: bytes) -> int:
        return MEMORY_BASE + MEMORY_FOR_EACH_BYTE * (len(data) + self.expands_to)


def encoded_again(first: bytes, encode: Callable[[], bytes], decode: Callable[[bytes], bytes]) -> None:
    """Check that a decoded value survives its encoding: decode(encode(value)) encodes to the same bytes."""
    encoded = encode()
    assert decode(encoded) == encoded, f"{first!r} decodes to a value that changes when it is encoded again"
