"""Table of attacks: for each API a legal request that is as large, or as costly, as possible.

A row's function returns requests with their versions for a scene. kwire's codec encodes them, and kwire and Apache
Kafka get the same bytes. Lists have MANY elements: kwire accepts ELEMENTS_MAX in a request, Kafka has no limit.
"""

from compat_tests.starvation import (
    attacks_on_groups,
    attacks_on_modern_groups,
    attacks_on_records,
    attacks_on_share_state,
    attacks_on_the_cluster,
)
from compat_tests.starvation.attack import in_turns
from kwire.protocol.requesting import frame_request

CLIENT_ID = "attacker"
BUFFER_BYTES = 64 * 1024
"""Small requests are repeated up to this size, so that one write sends many."""

ATTACKS = (
    *attacks_on_records.ATTACKS,
    *attacks_on_groups.ATTACKS,
    *attacks_on_modern_groups.ATTACKS,
    *attacks_on_share_state.ATTACKS,
    *attacks_on_the_cluster.ATTACKS,
)


def cases():
    """Return the attacks of the row. Attacks with the same `together` become one case, so that the row ends in time."""
    together = {}
    for each in ATTACKS:
        together.setdefault(each.together or each.name, []).append(each)
    return [attacks[0] if len(attacks) == 1 else in_turns(name, attacks) for name, attacks in together.items()]


def frame_of(request, version):
    """Return a request as bytes, with its size in front."""
    return frame_request(request, version, 1, CLIENT_ID)


def frames_of(attack, scene):
    """Return the attack's requests as bytes, each once."""
    return [frame_of(request, version) for request, version in attack.make(scene)]


def repeated(frames):
    """Return the bytes of one write: the requests, repeated when they are small."""
    once = b"".join(frames)
    return once * max(1, BUFFER_BYTES // len(once))
