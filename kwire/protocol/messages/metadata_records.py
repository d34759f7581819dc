"""Records of __cluster_metadata, which the controller writes and every broker replays.

A record's value is framed by unsigned varints before the body: frame version 1, the record type's key, the version.
"""

from kwire.protocol import wire
from kwire.protocol.codec import decode_prefix, encode
from kwire.protocol.error_codes import ProtocolError, UnknownRecordTypeError
from kwire.protocol.primitives import (
    BrokerId,
    TopicName,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from kwire.protocol.schema import field, message, schema_of, struct


@struct
class BrokerEndpoint:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


@struct
class BrokerFeature:
    name: string = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


@message(key=0, kind="data", versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    broker_id: BrokerId = field("0+")
    is_migrating_zk_broker: boolean = field("2+")
    incarnation_id: uuid = field("0+")
    broker_epoch: int64 = field("0+")
    end_points: list[BrokerEndpoint] = field("0+")
    features: list[BrokerFeature] = field("0+")
    rack: string | None = field("0+", nullable="0+")
    fenced: boolean = field("0+", default=True)
    in_controlled_shutdown: boolean = field("1+")
    log_dirs: list[uuid] = field("3+", tag=0, tagged="3+")
    cordoned_log_dirs: list[uuid] | None = field("4+", nullable="4+", tag=1, tagged="4+", default=None)


@message(key=1, kind="data", versions="0", flexible="0+")
class UnregisterBrokerRecord:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+")


@message(key=2, kind="data", versions="0", flexible="0+")
class TopicRecord:
    name: TopicName = field("0+")
    topic_id: uuid = field("0+")


@message(key=3, kind="data", versions="0-2", flexible="0+")
class PartitionRecord:
    partition_id: int32 = field("0+", default=-1)
    topic_id: uuid = field("0+")
    replicas: list[BrokerId] = field("0+")
    isr: list[int32] = field("0+")
    removing_replicas: list[BrokerId] = field("0+")
    adding_replicas: list[BrokerId] = field("0+")
    leader: BrokerId = field("0+", default=-1)
    leader_recovery_state: int8 = field("0+", tag=0, tagged="0+")
    leader_epoch: int32 = field("0+", default=-1)
    partition_epoch: int32 = field("0+", default=-1)
    directories: list[uuid] = field("1+")
    eligible_leader_replicas: list[BrokerId] | None = field("2+", nullable="2+", tag=1, tagged="2+", default=None)
    last_known_elr: list[BrokerId] | None = field("2+", nullable="2+", tag=2, tagged="2+", default=None)


@message(key=4, kind="data", versions="0", flexible="0+")
class ConfigRecord:
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    name: string = field("0+")
    value: string | None = field("0+", nullable="0+")


@message(key=5, kind="data", versions="0-2", flexible="0+")
class PartitionChangeRecord:
    partition_id: int32 = field("0+", default=-1)
    topic_id: uuid = field("0+")
    isr: list[BrokerId] | None = field("0+", nullable="0+", tag=0, tagged="0+", default=None)
    leader: BrokerId = field("0+", tag=1, tagged="0+", default=-2)
    replicas: list[BrokerId] | None = field("0+", nullable="0+", tag=2, tagged="0+", default=None)
    removing_replicas: list[BrokerId] | None = field("0+", nullable="0+", tag=3, tagged="0+", default=None)
    adding_replicas: list[BrokerId] | None = field("0+", nullable="0+", tag=4, tagged="0+", default=None)
    leader_recovery_state: int8 = field("0+", tag=5, tagged="0+", default=-1)
    directories: list[uuid] | None = field("1+", nullable="1+", tag=8, tagged="1+", default=None)
    eligible_leader_replicas: list[BrokerId] | None = field("2+", nullable="2+", tag=6, tagged="2+", default=None)
    last_known_elr: list[BrokerId] | None = field("2+", nullable="2+", tag=7, tagged="2+", default=None)


@message(key=7, kind="data", versions="0", flexible="0+")
class FenceBrokerRecord:
    id: BrokerId = field("0+")
    epoch: int64 = field("0+")


@message(key=8, kind="data", versions="0", flexible="0+")
class UnfenceBrokerRecord:
    id: BrokerId = field("0+")
    epoch: int64 = field("0+")


@message(key=9, kind="data", versions="0", flexible="0+")
class RemoveTopicRecord:
    topic_id: uuid = field("0+")


@message(key=10, kind="data", versions="0", flexible="0+")
class DelegationTokenRecord:
    owner: string = field("0+")
    requester: string = field("0+")
    renewers: list[string] = field("0+")
    issue_timestamp: int64 = field("0+")
    max_timestamp: int64 = field("0+")
    expiration_timestamp: int64 = field("0+")
    token_id: string = field("0+")


@message(key=11, kind="data", versions="0", flexible="0+")
class UserScramCredentialRecord:
    name: string = field("0+")
    mechanism: int8 = field("0+")
    salt: bytes_ = field("0+", secret=True)
    stored_key: bytes_ = field("0+", secret=True)
    server_key: bytes_ = field("0+", secret=True)
    iterations: int32 = field("0+")


@message(key=12, kind="data", versions="0", flexible="0+")
class FeatureLevelRecord:
    name: string = field("0+")
    feature_level: int16 = field("0+")


@struct
class ClientQuotaEntityData:
    entity_type: string = field("0+")
    entity_name: string | None = field("0+", nullable="0+")


@message(key=14, kind="data", versions="0", flexible="0+")
class ClientQuotaRecord:
    entity: list[ClientQuotaEntityData] = field("0+")
    key: string = field("0+")
    value: float64 = field("0+")
    remove: boolean = field("0+")


@message(key=15, kind="data", versions="0", flexible="0+")
class ProducerIdsRecord:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    next_producer_id: int64 = field("0+")


@message(key=17, kind="data", versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    broker_id: BrokerId = field("0+")
    broker_epoch: int64 = field("0+")
    fenced: int8 = field("0+", tag=0, tagged="0+")
    in_controlled_shutdown: int8 = field("1+", tag=1, tagged="1+")
    log_dirs: list[uuid] = field("2+", tag=2, tagged="2+")
    cordoned_log_dirs: list[uuid] | None = field("3+", nullable="3+", tag=3, tagged="3+", default=None)


@message(key=18, kind="data", versions="0", flexible="0+")
class AccessControlEntryRecord:
    id: uuid = field("0+")
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    pattern_type: int8 = field("0+")
    principal: string = field("0+")
    host: string = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


@message(key=19, kind="data", versions="0", flexible="0+")
class RemoveAccessControlEntryRecord:
    id: uuid = field("0+")


@message(key=20, kind="data", versions="0", flexible="0+")
class NoOpRecord:
    pass


@message(key=21, kind="data", versions="0", flexible="0+")
class ZkMigrationStateRecord:
    zk_migration_state: int8 = field("0+")


@message(key=22, kind="data", versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    name: string = field("0+")
    mechanism: int8 = field("0+")


@message(key=23, kind="data", versions="0", flexible="0+")
class BeginTransactionRecord:
    name: string | None = field("0+", nullable="0+", tag=0, tagged="0+", default=None)


@message(key=24, kind="data", versions="0", flexible="0+")
class EndTransactionRecord:
    pass


@message(key=25, kind="data", versions="0", flexible="0+")
class AbortTransactionRecord:
    reason: string | None = field("0+", nullable="0+", tag=0, tagged="0+", default=None)


@message(key=26, kind="data", versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    token_id: string = field("0+")


@struct
class ControllerEndpoint:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


@struct
class ControllerFeature:
    name: string = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


@message(key=27, kind="data", versions="0", flexible="0+")
class RegisterControllerRecord:
    controller_id: int32 = field("0+")
    incarnation_id: uuid = field("0+")
    zk_migration_ready: boolean = field("0+")
    end_points: list[ControllerEndpoint] = field("0+")
    features: list[ControllerFeature] = field("0+")


@message(key=28, kind="data", versions="0", flexible="0+")
class ClearElrRecord:
    topic_name: TopicName = field("0+")


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
)
_FRAME_VERSION = 1
_RECORD_TYPES: dict[int, type[MetadataRecord]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
}


def encode_metadata_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """Return the framed record, in its highest version unless another is given (metadata.version may require one)."""
    schema = schema_of(type(record))
    assert schema.key is not None
    if version is None:
        version = schema.versions.high
    out = bytearray((_FRAME_VERSION, schema.key, version))
    encode(record, version, out)
    return bytes(out)


def decode_metadata_record(data: bytes | bytearray) -> MetadataRecord:
    """Return the record in a frame. As in Kafka, bytes after it are an error."""
    try:
        frame_version, position = wire.read_unsigned_varint(data, 0)
        key, position = wire.read_unsigned_varint(data, position)
        version, position = wire.read_unsigned_varint(data, position)
    except IndexError as error:
        raise ProtocolError("a metadata record ends within its frame") from error
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record has frame version {frame_version}")
    cls = _RECORD_TYPES.get(key)
    if cls is None:
        raise UnknownRecordTypeError(f"unknown metadata record type {key}")
    record, position = decode_prefix(cls, version, data, position)
    if position != len(data):
        raise ProtocolError(f"{len(data) - position} bytes follow a {cls.__name__}")
    return record
