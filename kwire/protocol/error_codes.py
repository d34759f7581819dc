"""Error codes of Kafka 4.3.1 in one table, and the exceptions of this layer.

Three kinds of errors are kept apart. Invalid bytes from the peer raise ProtocolError, and the connection is closed.
Outcomes in Kafka's protocol have an ErrorCode in a response; inside the broker a KafkaError contains it. A kwire bug
raises EncodeError or an assertion.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """Error code with its number, True if a client may retry, and its meaning in one line."""

    retriable: bool
    meaning: str

    def __new__(cls, number: int, retriable: bool = False, meaning: str = "") -> Self:
        code = int.__new__(cls, number)
        code._value_ = number
        code.retriable = retriable
        code.meaning = meaning
        return code

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Return UNKNOWN_SERVER_ERROR for a code of a newer version in a response, as Apache Kafka does."""
        return cls(-1) if isinstance(value, int) else None

    UNKNOWN_SERVER_ERROR = -1, False, "the broker failed in a way that no other code describes"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset is below the log's start or behind its end"
    CORRUPT_MESSAGE = (
        2,
        True,
        "a record batch fails its checksum or its own length, or lacks a key that compaction needs",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "no such topic or partition here"
    INVALID_FETCH_SIZE = 4, False, "the fetch asks for an impossible number of bytes"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this broker is not the partition's leader, or has no replica of it"
    REQUEST_TIMED_OUT = 7, True, "the time limit passed before the request was complete"
    BROKER_NOT_AVAILABLE = 8, False, "the broker cannot be reached"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica asked for is not on this broker"
    MESSAGE_TOO_LARGE = 10, False, "a record batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, False, "a newer controller exists"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the metadata string of a committed offset is too long"
    NETWORK_EXCEPTION = 13, True, "the connection ended before the response"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is still reading its log"
    COORDINATOR_NOT_AVAILABLE = 15, True, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, True, "another broker coordinates this group or transactional id"
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "the topic's name is not allowed, or the operation is not allowed on this topic",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "a record batch is larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, True, "too few replicas are in sync; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "written, but fewer replicas than required have it"
    INVALID_REQUIRED_ACKS = 21, False, "acks is none of -1, 0 and 1"
    ILLEGAL_GENERATION = 22, False, "the group is in another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "the member shares no protocol with the group, or names none"
    INVALID_GROUP_ID = 24, False, "the group's id is not allowed"
    UNKNOWN_MEMBER_ID = 25, False, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout is outside the broker's limits"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing; the member must join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the committed offset is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not authorised for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not authorised for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not authorised for the cluster"
    INVALID_TIMESTAMP = 32, False, "a record's timestamp is outside the topic's bounds"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the state of authentication"
    UNSUPPORTED_VERSION = 35, False, "the broker does not speak this version of the API"
    TOPIC_ALREADY_EXISTS = 36, False, "there is a topic of this name"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not allowed"
    INVALID_REPLICATION_FACTOR = 38, False, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "a configuration value is not valid"
    NOT_CONTROLLER = 41, True, "another node is the controller"
    INVALID_REQUEST = 42, False, "the request contradicts itself or breaks a rule of its API"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the message format cannot express the request"
    POLICY_VIOLATION = 44, False, "a configured policy forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "a producer's sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "a producer's sequence number was used before"
    INVALID_PRODUCER_EPOCH = 47, False, "the producer's epoch is old"
    INVALID_TXN_STATE = 48, False, "the transaction's state does not allow the operation"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout is above the broker's limit"
    CONCURRENT_TRANSACTIONS = 51, True, "another operation on the same transaction is under way"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "the marker comes from a coordinator that was replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not authorised for the transactional id"
    SECURITY_DISABLED = 54, False, "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, False, "not tried, because another part of the batch failed"
    KAFKA_STORAGE_ERROR = 56, True, "the disk failed under the log"
    LOG_DIR_NOT_FOUND = 57, False, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "the partition knows nothing, or nothing any more, of the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the principal neither owns the token nor may renew it"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "this connection may not handle delegation tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not authorised for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, False, "the group has members"
    GROUP_ID_NOT_FOUND = 69, False, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the fetch session is at another epoch"
    LISTENER_NOT_FOUND = 72, True, "the leader has no listener of the name that the request came through"
    TOPIC_DELETION_DISABLED = 73, False, "delete.topic.enable is off"
    FENCED_LEADER_EPOCH = 74, True, "the request's leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, True, "the request's leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "the compression is not supported by this version of the API"
    STALE_BROKER_EPOCH = 77, False, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, True, "a new leader does not know the high watermark for certain yet"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id given in this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group is full"
    FENCED_INSTANCE_ID = 82, False, "another member has taken over the group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica that may lead is available"
    ELECTION_NOT_NEEDED = 84, True, "the partition has the leader that the election would give it"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "offsets of a topic cannot be deleted while the group is subscribed to it"
    INVALID_RECORD = 87, False, "a record breaks the rules of the log"
    UNSTABLE_OFFSET_COMMIT = 88, True, "a transaction that commits offsets is still open"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "the quota is used up; come back later"
    PRODUCER_FENCED = 90, False, "a newer producer has the same transactional id"
    RESOURCE_NOT_FOUND = 91, False, "the request refers to a thing that does not exist"
    DUPLICATE_RESOURCE = 92, False, "the request names the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, False, "sender and receiver do not agree on who votes"
    INVALID_UPDATE_VERSION = 95, False, "the version to update from or to is wrong"
    FEATURE_UPDATE_FAILED = 96, False, "the finalised features could not be changed"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "a forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, False, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position is negative or behind the snapshot's end"
    UNKNOWN_TOPIC_ID = 100, True, "no topic with this id here"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "a live broker has this id"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker with this id is registered"
    INCONSISTENT_TOPIC_ID = 103, True, "the log has another topic id than the request"
    INCONSISTENT_CLUSTER_ID = 104, False, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "a fetch session cannot change between topic names and topic ids"
    INELIGIBLE_REPLICA = 107, False, "a replica may not join the in-sync set"
    NEW_LEADER_ELECTED = 108, False, "the partition was changed, and has another leader now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset is in remote storage only"
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "the member's epoch is not the coordinator's; give up all partitions and join again",
    )
    UNRELEASED_INSTANCE_ID = 111, False, "another member still holds the instance id"
    UNSUPPORTED_ASSIGNOR = 112, False, "the group does not support the assignor"
    STALE_MEMBER_EPOCH = 113, False, "the member's epoch is old; retry with the one of the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "the request went to a broker in place of a controller, or the reverse"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "this kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, False, "no controller with this id is known"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription is not the current one"
    TELEMETRY_TOO_LARGE = 118, False, "the pushed telemetry is too large"
    INVALID_REGISTRATION = 119, False, "the controller rejects the broker's registration"
    TRANSACTION_ABORTABLE = 120, False, "the transaction must be aborted; the transactional id can go on"
    INVALID_RECORD_STATE = 121, False, "the record is not in a state that can be acknowledged"
    SHARE_SESSION_NOT_FOUND = 122, True, "no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the share session is at another epoch"
    FENCED_STATE_EPOCH = 124, False, "the share group's state has another epoch"
    INVALID_VOTER_KEY = 125, False, "the voter's key is not that of the receiving replica"
    DUPLICATE_VOTER = 126, False, "the voter is in the set of voters already"
    VOTER_NOT_FOUND = 127, False, "the voter is not in the set of voters"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, False, "the client must start again from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the topology's epoch is old"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "no more share sessions are possible"


class ProtocolError(Exception):
    """Bytes from the peer that are not a valid message. The connection is closed, because its state is unknown."""


class UnknownRecordTypeError(ProtocolError):
    """Record of an internal topic with an undeclared type; its reader decides whether to skip it."""


class EncodeError(ValueError):
    """Value that the requested version cannot express."""


MESSAGE_CHARACTERS_MAX = 8000
"""Limit for an error's message, which may quote a client's data and must fit into a string of 32767 bytes."""


def shortened(message: str) -> str:
    """Return the message, or its beginning if it does not fit into a response."""
    return message if len(message) <= MESSAGE_CHARACTERS_MAX else f"{message[: MESSAGE_CHARACTERS_MAX - 3]}..."


class KafkaError(Exception):
    """Outcome for which Kafka's protocol has a code.

    `record_errors` are (index in the batch, message) of single records, for Produce (KIP-467).
    """

    def __init__(
        self, code: ErrorCode, message: str | None = None, *, record_errors: Sequence[tuple[int, str | None]] = ()
    ) -> None:
        message = None if message is None else shortened(message)
        # Only arguments: attributes would take another 200 bytes of each of 100,000 errors in an answer.
        super().__init__(code, message, record_errors)

    @property
    def code(self) -> ErrorCode:
        """Error code for the response."""
        found: ErrorCode = self.args[0]
        return found

    @property
    def message(self) -> str | None:
        """Message for the response, if it has a field for one; None for the code's own meaning."""
        found: str | None = self.args[1]
        return found

    @property
    def record_errors(self) -> Sequence[tuple[int, str | None]]:
        """Errors of single records."""
        found: Sequence[tuple[int, str | None]] = self.args[2]
        return found

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message or self.code.meaning}"

    def without_traceback(self) -> "KafkaError":
        """Return the same outcome without a traceback, which would keep the locals of all its frames alive."""
        return KafkaError(self.code, self.message, record_errors=self.record_errors)
