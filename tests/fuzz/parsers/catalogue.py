"""Catalogue of all targets, in groups: a group has one corpus file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.fuzz.parsers.target import Target
from tests.fuzz.parsers.targets.batches import WIRE
from tests.fuzz.parsers.targets.files import FILES, TEXTS
from tests.fuzz.parsers.targets.logins import LOGINS
from tests.fuzz.parsers.targets.messages import RECORDS, REQUESTS, RESPONSES
from tests.fuzz.parsers.targets.stores import STORES

GROUPS: Final[Mapping[str, Sequence[Target]]] = {
    "wire": WIRE,
    "logins": LOGINS,
    "stores": STORES,
    "texts": TEXTS,
    "files": FILES,
    "records": RECORDS,
    "requests": REQUESTS,
    "responses": RESPONSES,
}
TARGETS: Final = {target.name: (group, target) for group, targets in GROUPS.items() for target in targets}
assert len(TARGETS) == sum(map(len, GROUPS.values())), "names of targets are unique"
