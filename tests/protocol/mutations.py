"""Frames that were damaged by chance."""

import random

HUGE_CLAIMS = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 12)
"""Lengths and counts that nothing follows."""


def mutate(frame: bytes, chance: random.Random) -> bytes:
    out = bytearray(frame)
    for _ in range(chance.randrange(1, 4) if out else 0):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(out):
            out[at] = chance.randrange(256)
        elif kind == 1 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            out[at : at + chance.randrange(6)] = chance.randbytes(chance.randrange(6))
        elif kind == 3:
            out[at : at + 4] = chance.choice(HUGE_CLAIMS)
        else:
            del out[at:]
    return bytes(out)
