"""Rules for requests that Kafka rejects as a whole, rejects for another fault, or fails over."""

from collections.abc import Iterator
from typing import Any

from compat_tests.differential.batches import is_unreadable
from compat_tests.differential.comparing import Difference
from compat_tests.differential.lazy import Made
from compat_tests.differential.rule import Rule, at, beside, codes

UNKNOWN_SERVER_ERROR = -1
CORRUPT = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REQUIRED_ACKS = 21
INVALID_CONFIG = 40
INVALID_REQUEST = 42
INVALID_RECORD = 87
TRANSACTIONAL_REJECTED = 53
REJECTED_WHOLE = (CORRUPT, TRANSACTIONAL_REJECTED)
"""Codes for an unreadable batch and for a transactional batch without a transactional id."""
UNKNOWN_MEMBER_ID = 25
UNSUPPORTED_COMPRESSION_TYPE = 76
UNKNOWN_TOPIC_ID = 100
REJECTED_LATER = (3, 17, 53, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, 100)
"""Codes that kwire finds first: missing topic, internal topic, codec too new for the version, no whole batch."""
COORDINATOR_NOT_AVAILABLE = 15
SHARE = 2
MANY_TRANSACTIONS_SINCE = 4
TO_A_PARTITION = 4
"""Number of path elements before a partition of a Produce or ListOffsets response."""


def _in_a_partition(found: Difference, api: str) -> bool:
    return found.api == api and found.path.count(".") >= TO_A_PARTITION


def _batches(request: Any) -> Iterator[Any]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield data.records


def _rejected_acks(found: Difference) -> bool:
    """Return True if acks is invalid: kwire checks acks first, Kafka checks topics and batches first."""
    if not _in_a_partition(found, "Produce") or found.step.request.acks in (-1, 0, 1):
        return False
    return codes(found, TO_A_PARTITION)[0] == INVALID_REQUIRED_ACKS


def _unreadable(found: Difference) -> bool:
    """Return True if a batch is unreadable: Kafka fails before it checks the topic."""
    if found.api != "Produce" or not found.path.endswith("error_code"):
        return False
    is_meant = found.kafka in REJECTED_WHOLE and found.kwire in REJECTED_LATER
    is_meant |= (found.kwire, found.kafka) == (TRANSACTIONAL_REJECTED, INVALID_RECORD)
    return is_meant and any(is_unreadable(each) for each in _batches(found.step.request))


def _zstd_in_pieces(found: Difference) -> bool:
    is_old = found.api == "Produce" and found.step.version < 7
    return is_old and (found.kwire, found.kafka) == (UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD)


def _invalid_record(found: Difference) -> bool:
    """Return True for invalid records: Kafka returns log start offset -1 for faults found before it reads the log."""
    if not _in_a_partition(found, "Produce") or not found.path.endswith("log_start_offset"):
        return False
    ours, theirs = codes(found, TO_A_PARTITION)
    return ours == INVALID_RECORD and theirs in (INVALID_RECORD, *REJECTED_WHOLE) and found.kafka == -1


def _two_faults(found: Difference) -> bool:
    """Return True if a resource has two faults: Kafka checks a resource's configurations in hash table order."""
    if found.api != "IncrementalAlterConfigs" or not found.path.endswith("error_code"):
        return False
    ours = at(found.whole[0], found.path, 2)
    asked = [
        each
        for each in found.step.request.resources
        if (each.resource_type, each.resource_name) == (ours["resource_type"], ours["resource_name"])
    ]
    return len(asked[0].configs) > 1 and {found.kwire, found.kafka} == {INVALID_CONFIG, INVALID_REQUEST}


def _no_transactions(found: Difference) -> bool:
    """Return True for a request without transactions: Kafka never sends a response."""
    is_many = found.api == "AddPartitionsToTxn" and found.step.version >= MANY_TRANSACTIONS_SINCE
    return is_many and not found.step.request.transactions and "outcome" in found.whole[1]


def _producer_twice(found: Difference) -> bool:
    """Return True for two markers of one producer: Kafka sends no response, or one for the last marker only."""
    if found.api != "WriteTxnMarkers":
        return False
    producers = [str(marker.producer_id) for marker in found.step.request.markers]
    return len(set(producers)) < len(producers)


def _missing_partitions_of_a_marker(found: Difference) -> bool:
    """Return True if one of several markers names missing partitions only: Kafka may send no response."""
    if found.api != "WriteTxnMarkers" or len(found.step.request.markers) == 1 or not _is_silent(found):
        return False
    results = [
        {each["error_code"] for topic in marker["topics"] for each in topic["partitions"]}
        for marker in found.whole[0]["markers"]
    ]
    return {UNKNOWN_TOPIC_OR_PARTITION} in results


def _is_silent(found: Difference) -> bool:
    """Return True if only Kafka sent no response in time."""
    ours, theirs = found.whole
    return "outcome" not in ours and str(theirs.get("outcome")).startswith("no answer")


def _share_offsets(found: Difference) -> bool:
    """Return True for share group offsets of a missing partition: Kafka responds only after 30 seconds of retries."""
    if found.api != "DescribeShareGroupOffsets" or not _is_silent(found):
        return False
    topics = [topic for group in found.whole[0]["groups"] for topic in group["topics"]]
    return any(each["start_offset"] == -1 for topic in topics for each in topic["partitions"])


def _spaces(found: Difference) -> bool:
    """Return True for a reassignment that Kafka fails: a min.insync.replicas with spaces, which Kafka accepted."""
    if found.api != "AlterPartitionReassignments" or not found.path.endswith("error_code"):
        return False
    return (found.kwire, found.kafka) == (0, UNKNOWN_SERVER_ERROR)


def _timestamp_below_the_log(found: Difference) -> bool:
    """Return True if kwire finds a later timestamp: Kafka searches the first segment with the timestamp only."""
    if not _in_a_partition(found, "ListOffsets") or not found.path.endswith(("leader_epoch", "offset", "timestamp")):
        return False
    ours, theirs = beside(found)
    return (theirs["offset"], theirs["error_code"], ours["error_code"]) == (-1, 0, 0) and ours["offset"] >= 0


def _coordinators(found: Difference) -> bool:
    if found.api != "FindCoordinator" or found.step.request.key_type != SHARE:
        return False
    ours = at(found.whole[0], found.path, 2) if found.path.startswith("coordinators.") else found.whole[0]
    return ours.get("error_code") in (COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST)


def _isolation_level(found: Difference) -> bool:
    if found.api != "ListOffsets" or found.step.request.isolation_level in (0, 1):
        return False
    if found.path.endswith(".partitions"):  # a partition that is named twice has two results
        return {each["error_code"] for each in found.kafka} == {UNKNOWN_SERVER_ERROR}
    if not _in_a_partition(found, "ListOffsets"):
        return False
    return codes(found, TO_A_PARTITION)[1] == UNKNOWN_SERVER_ERROR


def _share_fetch(found: Difference) -> bool:
    """Return True for a ShareFetch that names an unknown topic id: Kafka rejects the whole request."""
    ours, theirs = found.whole
    if found.api != "ShareFetch" or theirs.get("error_code") != UNKNOWN_SERVER_ERROR:
        return False
    partitions = [each for topic in ours["responses"] for each in topic["partitions"]]
    return any(each["error_code"] == UNKNOWN_TOPIC_ID for each in partitions)


def _batch(found: Difference) -> bool:
    """Return True for an unknown codec, an offset overflow or null records: Kafka fails with an unexpected error."""
    if not _in_a_partition(found, "Produce") or codes(found, TO_A_PARTITION)[1] != UNKNOWN_SERVER_ERROR:
        return False
    return any(each is None or _is_beyond(each) for each in _batches(found.step.request))


def _is_beyond(made: Any) -> bool:
    name, value = made.values.get("lie", ("", 0)) if isinstance(made, Made) else ("", 0)
    return name == "codec" or (name, value) == ("length", 2**31 - 1)


def _metadata(found: Difference) -> bool:
    """Return True for a topic with neither name nor id."""
    if found.api != "Metadata" or not found.whole[1].get("topics"):
        return False
    is_asked = any(each.name is None for each in found.step.request.topics or ())
    return is_asked and at(found.whole[1], "topics.0", 2).get("error_code") == UNKNOWN_SERVER_ERROR


def _operation(found: Difference) -> bool:
    """Return True for an unknown operation on a configuration."""
    if found.api != "IncrementalAlterConfigs" or not found.path.endswith("error_code"):
        return False
    return found.kafka == UNKNOWN_SERVER_ERROR and found.kwire in (INVALID_CONFIG, INVALID_REQUEST)


def _token(found: Difference) -> bool:
    """Return True for a token owner with a name and no type, or with a type and no name."""
    request = found.step.request
    if found.api != "CreateDelegationToken" or found.whole[1].get("error_code") != UNKNOWN_SERVER_ERROR:
        return False
    return None in (request.owner_principal_type, request.owner_principal_name)


def _empty_name(found: Difference) -> bool:
    """Return True if one topic has an empty name: Kafka then fails all topics of the request."""
    if found.api != "DescribeTopicPartitions" or not found.path.startswith(("topics", "next_cursor")):
        return False
    is_asked = any(each.name == "" for each in found.step.request.topics)
    return is_asked and {each["error_code"] for each in found.whole[1]["topics"]} == {UNKNOWN_SERVER_ERROR}


def _cursor(found: Difference) -> bool:
    """Return True for a cursor at the largest partition number, which Kafka increments to the smallest number."""
    cursor = found.step.request.cursor if found.api == "DescribeTopicPartitions" else None
    if cursor is None or cursor.partition_index != 2**31 - 1 or not found.path.startswith(("topics", "next_cursor")):
        return False
    theirs = found.whole[1]["next_cursor"]
    return theirs is not None and theirs["partition_index"] < 0


def _instance(found: Difference) -> bool:
    """Return True for an empty instance id, or for one with a member id that waits for its first join."""
    if found.api != "JoinGroup" or found.step.request.group_instance_id is None:
        return False
    ours, theirs = (whole.get("error_code") for whole in found.whole)
    return theirs == UNKNOWN_SERVER_ERROR and (ours == UNKNOWN_MEMBER_ID or not found.step.request.group_instance_id)


def _sync_of_who_left(found: Difference) -> bool:
    """Return True if a member left during its SyncGroup: Kafka removes the member and never sends the response."""
    is_meant = found.api == "SyncGroup" and found.whole[0].get("error_code") == UNKNOWN_MEMBER_ID
    return is_meant and _is_silent(found)


RULES_OF_FAILURES: tuple[Rule, ...] = (
    Rule(name="acks that are none", excuses=_rejected_acks),
    Rule(name="no coordinator of share groups", excuses=_coordinators),
    Rule(name="Kafka fails: two markers of one producer", excuses=_producer_twice, is_rare=True),
    Rule(name="Kafka fails: a request about no transaction", excuses=_no_transactions, is_rare=True),
    Rule(name="a batch that cannot be read, for a topic that is not there", excuses=_unreadable),
    Rule(name="a part of a batch that the version could not carry", excuses=_zstd_in_pieces, is_rare=True),
    Rule(name="the start of the log beside an invalid record", excuses=_invalid_record),
    Rule(name="two faults in one resource", excuses=_two_faults, is_rare=True),
    Rule(name="Kafka fails: an isolation level that is none", excuses=_isolation_level),
    Rule(name="Kafka fails: a codec or length that cannot be, or no records", excuses=_batch),
    Rule(name="Kafka fails: a topic with neither name nor id", excuses=_metadata),
    Rule(name="Kafka fails: an operation that is none", excuses=_operation),
    Rule(name="Kafka fails: a ShareFetch of an unknown topic id", excuses=_share_fetch, is_rare=True),
    Rule(name="Kafka fails: half an owner of a token", excuses=_token),
    Rule(name="Kafka fails: a topic with an empty name", excuses=_empty_name, is_rare=True),
    Rule(name="Kafka fails: a cursor at the largest number", excuses=_cursor, is_rare=True),
    Rule(name="Kafka fails: a SyncGroup that waits when its member leaves", excuses=_sync_of_who_left),
    Rule(name="Kafka fails: a group.instance.id that is empty or that waits", excuses=_instance, is_rare=True),
    Rule(name="Kafka fails: a marker of missing partitions", excuses=_missing_partitions_of_a_marker, is_rare=True),
    Rule(name="Kafka retries: share offsets of a missing partition", excuses=_share_offsets, is_rare=True),
    Rule(name="Kafka fails: a min.insync.replicas with spaces", excuses=_spaces, is_rare=True),
    Rule(name="a timestamp below the log start offset", excuses=_timestamp_below_the_log, is_rare=True),
)
