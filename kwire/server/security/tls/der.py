"""Elements of DER: the encoding of names, keys and certificates (X.690).

element   tag 1 byte, length 1 byte (below 128) or 1 + 1 to 4 bytes, content
"""

from __future__ import annotations

from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4


class Element(NamedTuple):
    """Element: its tag, its content, and its whole encoding."""

    tag: int
    content: bytes
    encoded: bytes


def elements(data: bytes) -> list[Element]:
    """Return the elements that follow each other in `data`. Raises ValueError."""
    found = []
    position = 0
    while position < len(data):
        element = _element(data, position)
        found.append(element)
        position += len(element.encoded)
    return found


def only(data: bytes, tag: int) -> bytes:
    """Return the content of the only element of `data`, which has this tag. Raises ValueError."""
    found = elements(data)
    if len(found) != 1 or found[0].tag != tag:
        raise ValueError(f"there is not one element of type {tag:#x}")
    return found[0].content


def _element(data: bytes, position: int) -> Element:
    if len(data) - position < 2:
        raise ValueError("an element is cut off")
    start, size = position + 2, data[position + 1]
    if size >= _LONG_LENGTH:
        count = size - _LONG_LENGTH
        if not 1 <= count <= _LENGTH_BYTES_MAX:
            raise ValueError("an element has no valid length")
        size = int.from_bytes(data[start : start + count], "big")
        start += count
    if len(data) - start < size:
        raise ValueError("an element is cut off")
    return Element(data[position], data[start : start + size], data[position : start + size])


def dotted(identifier: bytes) -> str:
    """Return the content of an object identifier in dotted form. Raises ValueError."""
    numbers: list[int] = []
    number = 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or identifier[-1] & 0x80:
        raise ValueError("an object identifier is cut off")
    first = min(numbers[0] // 40, 2)
    return ".".join(str(each) for each in (first, numbers[0] - 40 * first, *numbers[1:]))
