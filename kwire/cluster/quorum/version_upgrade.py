"""Upgrade of kraft.version from 0 to 1: configured voters become voters in the log, which may change then (KIP-853).

Voters of version 0 are identified by id alone. They send their endpoints and supported versions to the leader by
UpdateRaftVoter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kwire.cluster.quorum.config import KRAFT_VERSION_MAX
from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.ready import Answer, ControlBatch
from kwire.cluster.quorum.roles import Leader
from kwire.cluster.quorum.voters import VoterSet
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.control_records import KRaftVersionRecord


@dataclass(frozen=True, slots=True)
class UpgradeOutcome:
    """Response of Quorum.upgrade_kraft_version; NONE as soon as the records are written."""

    error: ErrorCode
    text: str = ""


def upgrade_kraft_version(core: Core, token: Any, version: int, *, validate_only: bool) -> None:
    outcome, voters = _plan(core, version)
    if voters is not None and not validate_only:
        records = [
            (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=version)),
            (ControlRecordType.KRAFT_VOTERS, voters.to_record()),
        ]
        core.ready.append_control.append(ControlBatch(epoch=core.epoch, records=records))
    core.ready.answers.append(Answer(token=token, response=outcome))


def _plan(core: Core, version: int) -> tuple[UpgradeOutcome, VoterSet | None]:
    """Return the outcome, and the voters to write if there is an upgrade to make."""
    leader, current = core.role, core.history.kraft_version
    if not isinstance(leader, Leader) or not leader.has_high_watermark:
        return UpgradeOutcome(ErrorCode.NOT_CONTROLLER, "this node is not the active controller"), None
    if version == current:
        return UpgradeOutcome(ErrorCode.NONE), None
    if not current < version <= KRAFT_VERSION_MAX:
        text = f"kraft.version goes from {current} to {KRAFT_VERSION_MAX} only, not to {version}"
        return UpgradeOutcome(ErrorCode.INVALID_UPDATE_VERSION, text), None
    known = {**leader.claimed_voters, core.config.node_id: core.config.voter}
    silent = sorted(core.voters.ids - set(known))
    if silent:
        text = f"voters {silent} have not sent their supported versions to the leader yet"
        return UpgradeOutcome(ErrorCode.INVALID_UPDATE_VERSION, text), None
    voters = VoterSet(known[node_id] for node_id in core.voters.ids)
    unable = sorted(voter.key.node_id for voter in voters if not voter.supports(version))
    if unable:
        return UpgradeOutcome(ErrorCode.INVALID_UPDATE_VERSION, f"voters {unable} do not support {version}"), None
    assert core.voters.overlaps_majority(voters), "the voters are the same, with more known about them"
    return UpgradeOutcome(ErrorCode.NONE), voters
