"""Values of control records: transaction markers, and records of the metadata quorum itself.

The quorum's kraft.version determines their versions; each value also contains its version in its first field.
"""

from kwire.protocol.primitives import BrokerId, int16, int32, int64, string, uint16, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@message(kind="data", versions="0")
class ControlRecordTypeSchema:
    """Key of a control record, after its version as an int16."""

    type: int16 = field("0+")


@message(kind="data", versions="0")
class EndTxnMarker:
    coordinator_epoch: int32 = field("0+")


@struct
class LeaderChangeVoter:
    voter_id: int32 = field("0+")
    voter_directory_id: uuid = field("1+")


@message(kind="data", versions="0-1", flexible="0+")
class LeaderChangeMessage:
    version: int16 = field("0+")
    leader_id: BrokerId = field("0+")
    voters: list[LeaderChangeVoter] = field("0+")
    granting_voters: list[LeaderChangeVoter] = field("0+")


@message(kind="data", versions="0", flexible="0+")
class SnapshotHeaderRecord:
    version: int16 = field("0+")
    last_contained_log_timestamp: int64 = field("0+")


@message(kind="data", versions="0", flexible="0+")
class SnapshotFooterRecord:
    version: int16 = field("0+")


@message(kind="data", versions="0", flexible="0+")
class KRaftVersionRecord:
    version: int16 = field("0+")
    kraft_version: int16 = field("0+")


@struct
class VotersEndpoint:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")


@frozen_struct
class VotersKRaftVersionFeature:
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


@struct
class VotersVoter:
    voter_id: BrokerId = field("0+")
    voter_directory_id: uuid = field("0+")
    endpoints: list[VotersEndpoint] = field("0+")
    kraft_version_feature: VotersKRaftVersionFeature = field("0+")


@message(kind="data", versions="0", flexible="0+")
class VotersRecord:
    version: int16 = field("0+")
    voters: list[VotersVoter] = field("0+")
