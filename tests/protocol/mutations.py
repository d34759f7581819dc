"""Randomly damaged frames."""

import random

HUGE_CLAIMS = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 12)
"""Lengths and counts without contents."""


def mutate(frame: bytes, random_source: random.Random) -> bytes:
    out = bytearray(frame)
    for _ in range(random_source.randrange(1, 4) if out else 0):
        at = random_source.randrange(len(out) + 1)
        kind = random_source.randrange(5)
        if kind == 0 and at < len(out):
            out[at] = random_source.randrange(256)
        elif kind == 1 and at < len(out):
            out[at] ^= 1 << random_source.randrange(8)
        elif kind == 2:
            out[at : at + random_source.randrange(6)] = random_source.randbytes(random_source.randrange(6))
        elif kind == 3:
            out[at : at + 4] = random_source.choice(HUGE_CLAIMS)
        else:
            del out[at:]
    return bytes(out)
