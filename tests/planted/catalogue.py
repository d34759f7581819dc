"""Catalogue of all planted bugs by name."""

from __future__ import annotations

from typing import Final

from tests.planted.bug import PlantedBug
from tests.planted.cleaning_bugs import CLEANING_BUGS
from tests.planted.cluster_bugs import CLUSTER_BUGS
from tests.planted.crash_bugs import CRASH_BUGS
from tests.planted.disk_bugs import DISK_BUGS
from tests.planted.group_bugs import GROUP_BUGS
from tests.planted.image_bugs import IMAGE_BUGS
from tests.planted.member_bugs import MEMBER_BUGS
from tests.planted.migration_bugs import MIGRATION_BUGS
from tests.planted.parser_bugs import PARSER_BUGS
from tests.planted.quorum_bugs import QUORUM_BUGS
from tests.planted.recovery_bugs import RECOVERY_BUGS
from tests.planted.replica_bugs import REPLICA_BUGS
from tests.planted.state_bugs import STATE_BUGS
from tests.planted.streams_bugs import STREAMS_BUGS
from tests.planted.transaction_bugs import TRANSACTION_BUGS

LOG_BUGS: Final[dict[str, PlantedBug]] = (
    DISK_BUGS.bugs
    | RECOVERY_BUGS.bugs
    | STATE_BUGS.bugs
    | CLEANING_BUGS.bugs
    | TRANSACTION_BUGS.bugs
    | IMAGE_BUGS.bugs
    | GROUP_BUGS.bugs
    | STREAMS_BUGS.bugs
    | MIGRATION_BUGS.bugs
    | REPLICA_BUGS.bugs
    | PARSER_BUGS.bugs
)
"""Bugs that ordinary tests find."""

BUGS: Final[dict[str, PlantedBug]] = LOG_BUGS | CRASH_BUGS | QUORUM_BUGS.bugs | CLUSTER_BUGS.bugs | MEMBER_BUGS.bugs
