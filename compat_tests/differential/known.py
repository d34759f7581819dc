"""Differences that are meant, each listed in docs/differences.md: one named rule excuses exactly that difference."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compat_tests.configs.known_differences import VALUES_DIFFER
from compat_tests.differential.comparing import Difference
from compat_tests.differential.drawing import names_nothing, repeats
from compat_tests.differential.normalising import MORE

INVALID_REQUIRED_ACKS = 21
REFUSED_FIRST = (2, 53)
"""A batch that cannot be read, a transactional one without a transactional id."""
INVALID_CONFIG = 40
INVALID_REQUEST = 42
INVALID_RECORD = 87
UNSUPPORTED_COMPRESSION_TYPE = 76
REPLICA = 7
"""The script's name for a follower that is none."""
UNKNOWN_SERVER_ERROR = -1
BROKER_LOGGER = 8
NOT_YET_CREATED = (3, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    excuses: Callable[[Difference], bool]


def _at(whole: Any, path: str, depth: int) -> Any:
    """What the first names of a path lead to."""
    for name in path.split(".")[:depth]:
        whole = whole[int(name)] if isinstance(whole, list) else whole[name]
    return whole


def _created_at_once(found: Difference) -> bool:
    if found.api != "Metadata" or not found.path.startswith("topics.") or found.path.count(".") < 2:
        return False
    ours, theirs = (_at(whole, found.path, 2) for whole in found.whole)
    return ours["error_code"] == 0 and theirs["error_code"] in NOT_YET_CREATED and bool(ours["partitions"])


def _min_insync_replicas(found: Difference) -> bool:
    if found.api not in ("CreateTopics", "DescribeConfigs") or ".configs." not in found.path:
        return False
    ours = _at(found.whole[0], found.path, 4)
    return ours["name"] == "min.insync.replicas"


def _broker_logger(found: Difference) -> bool:
    if not found.api.endswith("Configs") or found.path.count(".") < 2:
        return False
    return bool(_at(found.whole[0], found.path, 2).get("resource_type") == BROKER_LOGGER)


def _unreadable(found: Difference) -> bool:
    """Kafka stumbles before it looks at the topic."""
    return found.api == "Produce" and found.kafka in REFUSED_FIRST and found.kwire != 0


def _half_a_batch(found: Difference) -> bool:
    if not found.path.endswith(".records") or not isinstance(found.kafka, list) or not found.kafka:
        return False
    whole = found.kafka[:-1]
    return str(found.kafka[-1]).endswith(MORE) and len(whole) == len(found.kwire)


def _telemetry_again(found: Difference) -> bool:
    return found.api in ("GetTelemetrySubscriptions", "PushTelemetry")


def _invalid_record(found: Difference) -> bool:
    """Kafka tells what it sees before it looks at the partition from what it sees there; kwire looks once."""
    if found.api != "Produce" or not found.path.endswith("log_start_offset"):
        return False
    return bool(_at(found.whole[0], found.path, 4)["error_code"] == INVALID_RECORD)


def _not_a_replica(found: Difference) -> bool:
    return (
        found.api == "Fetch"
        and ".current_leader." in found.path
        and REPLICA
        in (
            found.step.request.replica_id,
            found.step.request.replica_state.replica_id,
        )
    )


def _broker_setting(found: Difference) -> bool:
    if found.api != "DescribeConfigs" or ".configs." not in found.path:
        return False
    return _at(found.whole[0], found.path, 4)["name"] in VALUES_DIFFER


def _zstd_in_pieces(found: Difference) -> bool:
    return found.api == "Produce" and (found.kwire, found.kafka) == (UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD)


def _two_faults(found: Difference) -> bool:
    return found.api == "IncrementalAlterConfigs" and (found.kwire, found.kafka) == (INVALID_CONFIG, INVALID_REQUEST)


def _unknown_server_error(found: Difference) -> bool:
    """Kafka fails over a request that no client sends; kwire names what is wrong with it."""
    request = found.step.request
    if found.api in ("Fetch", "Produce") and found.path.count(".") > 3:
        return bool(_at(found.whole[1], found.path, 4).get("error_code") == UNKNOWN_SERVER_ERROR)
    if (found.path.endswith("error_code") and found.kafka == UNKNOWN_SERVER_ERROR) or found.whole[1].get(
        "error_code"
    ) == UNKNOWN_SERVER_ERROR:
        return True
    if found.api == "JoinGroup":
        return bool(request.group_instance_id == "" and found.whole[1]["error_code"] == UNKNOWN_SERVER_ERROR)
    if found.api == "IncrementalAlterConfigs":
        return bool(found.kwire == INVALID_REQUEST and found.kafka == UNKNOWN_SERVER_ERROR)
    return found.api == "Metadata" and any(each.name is None for each in request.topics or ())


def _features(found: Difference) -> bool:
    return found.api == "ApiVersions" and found.path.startswith(
        ("api_keys", "finalized_features", "supported_features")
    )


def _refused_acks(found: Difference) -> bool:
    """Kafka looks at topics and batches first."""
    if found.api != "Produce" or found.step.request.acks in (-1, 0, 1) or not found.path.startswith("responses."):
        return False
    return bool(_at(found.whole[0], found.path, 4)["error_code"] == INVALID_REQUIRED_ACKS)


def _transactional(found: Difference) -> bool:
    if found.api in ("DescribeTransactions", "ListTransactions"):
        return True
    if found.api == "FindCoordinator":
        return bool(found.step.request.key_type in (1, 2))
    return found.api in ("InitProducerId", "Produce") and found.step.request.transactional_id is not None


RULES: tuple[Rule, ...] = (
    Rule(name="wording of error messages", excuses=lambda found: found.path.endswith("error_message")),
    Rule(name="a topic made by Metadata is there at once", excuses=_created_at_once),
    Rule(name="something named twice is answered once", excuses=lambda found: repeats(found.step.request)),
    Rule(name="a topic named without partitions", excuses=lambda found: names_nothing(found.step.request)),
    Rule(name="acks that are none", excuses=_refused_acks),
    Rule(name="no coordinator of transactions and share groups", excuses=_transactional),
    Rule(
        name="an isolation level that is none",
        excuses=lambda found: getattr(found.step.request, "isolation_level", 0) not in (0, 1),
    ),
    Rule(name="loggers of a broker", excuses=_broker_logger),
    Rule(name="a batch that cannot be read, for a topic that is not there", excuses=_unreadable),
    Rule(name="a part of a batch at the end of a fetch", excuses=_half_a_batch),
    Rule(name="telemetry asked for again after subscriptions changed", excuses=_telemetry_again),
    Rule(name="the start of the log beside an invalid record", excuses=_invalid_record),
    Rule(name="the leader told to a follower that is none", excuses=_not_a_replica),
    Rule(name="records inside a compressed batch", excuses=lambda found: found.path.endswith("record_errors")),
    Rule(name="settings of the node, and defaults of its own", excuses=_broker_setting),
    Rule(name="a part of a batch that the version could not carry", excuses=_zstd_in_pieces),
    Rule(name="two faults in one resource", excuses=_two_faults),
    Rule(name="an internal error of Kafka", excuses=_unknown_server_error),
    Rule(name="min.insync.replicas of all brokers", excuses=_min_insync_replicas),
    Rule(name="APIs and features that are not served yet", excuses=_features),
)


class Excuses:
    """Counts how often each rule was needed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def excuse(self, difference: Difference) -> bool:
        for rule in RULES:
            if rule.excuses(difference):
                self.counts[rule.name] += 1
                return True
        return False

    def idle(self) -> list[str]:
        return [rule.name for rule in RULES if not self.counts[rule.name]]
