"""Intended differences, each listed in docs/differences.md: one named rule excuses exactly one difference.

A rule inspects one differing field, with the request and both complete responses. known_failures.py has the rules for
requests that Kafka rejects or fails over.
"""

from collections import Counter
from typing import Any

from compat_tests.configs.known_differences import VALUES_DIFFER
from compat_tests.differential.comparing import Difference, differences
from compat_tests.differential.drawing import names_nothing, repeats
from compat_tests.differential.known_failures import RULES_OF_FAILURES
from compat_tests.differential.normalising import MORE, PARTITIONS, Names
from compat_tests.differential.rule import Rule, at, beside
from compat_tests.differential.rules_of_records import BYTES_FOR_A_PART
from kwire.cluster.metadata.features import SUPPORTED

BROKER = 4
BROKER_LOGGER = 8
UNKNOWN_TOPIC_ID = 100
BATCH_HEADER_BYTES = 61
GROUP_OFFSETS_TOPIC = "__consumer_offsets"

#: Errors that have a message in kwire, and null or an empty one in Kafka, by API and code.
WORDS = {
    ("Produce", 2),
    ("Produce", 10),
    ("Produce", 17),
    ("Produce", 18),
    ("Produce", 32),
    ("Produce", 45),
    ("Produce", 47),
    ("Produce", 59),
    ("Produce", 76),
    ("Produce", 87),
    ("DescribeConfigs", 3),
    ("FindCoordinator", 42),
}
#: Requests that may name a thing twice, and the lists of their responses that differ then.
ANSWERED_ONCE = {
    ("DescribeGroups", "groups"),
    ("OffsetFetch", "groups"),
    ("OffsetFetch", "topics"),
    ("OffsetFetch", "partitions"),
    ("DescribeConfigs", "results"),
    ("DescribeProducers", "partitions"),
    ("DescribeTransactions", "transaction_states"),
}
IDENTITY = ("name", "group_id", "transactional_id", "resource_type", "resource_name", "partition_index")


def _words(found: Difference) -> bool:
    if not found.path.endswith("error_message"):
        return False
    ours, theirs = (each.get("error_code") for each in beside(found))
    return ours == theirs and (found.api, ours) in WORDS and found.kafka in (None, "empty")


def _answered_once(found: Difference) -> bool:
    """Return True if Kafka's list has kwire's elements, some of them twice."""
    if (found.api, found.path.rpartition(".")[2]) not in ANSWERED_ONCE:
        return False
    if not repeats(found.step.request) and not _share_an_unknown_id(found):
        return False
    if set(map(_named, found.kwire)) != set(map(_named, found.kafka)):
        return False
    # Each broker creates its own ids: only the number of distinct things can be compared.
    ours, theirs = (
        {(_named(each), repr(each.get("topic_id"))) for each in side} for side in (found.kwire, found.kafka)
    )
    return len(found.kwire) == len(ours) == len(theirs) < len(found.kafka)


def _share_an_unknown_id(found: Difference) -> bool:
    """Return True if all topics of the response are unknown, so that they share one unknown id."""
    return found.api == "OffsetFetch" and {each.get("error_code") for each in found.kwire} == {UNKNOWN_TOPIC_ID}


def _unknown_ids(found: Difference) -> bool:
    """Return True if all topics share one unknown id: Kafka's response then has each partition once."""
    if found.api != "Produce" or not found.path.endswith(".partition_responses"):
        return False
    once = [each for index, each in enumerate(found.kwire) if each not in found.kwire[:index]]
    return found.kafka == once and {each["error_code"] for each in once} == {UNKNOWN_TOPIC_ID}


def _named(element: dict[str, Any]) -> str:
    return repr([element.get(name) for name in IDENTITY])


def _without_partitions(found: Difference) -> bool:
    """Return True if Kafka omits topics that kwire returns without partitions."""
    if not isinstance(found.kwire, list) or not names_nothing(found.step.request):
        return False
    if not all(isinstance(each, dict) for each in (*found.kwire, *found.kafka)):
        return False
    rest = [each for each in found.kwire if any(each.get(name) for name in PARTITIONS)]
    return len(rest) < len(found.kwire) and list(map(_named, rest)) == list(map(_named, found.kafka))


def _broker_logger(found: Difference) -> bool:
    """Return True for broker loggers: each broker has its own logger names and rejects the other's as unknown."""
    if found.api not in ("DescribeConfigs", "IncrementalAlterConfigs") or found.path.count(".") < 2:
        return False
    return bool(at(found.whole[0], found.path, 2).get("resource_type") == BROKER_LOGGER)


def _half_a_batch(found: Difference) -> bool:
    """Return True if Kafka filled the space with part of a batch, where kwire returns whole batches only."""
    if found.api != "Fetch" or found.path.count(".") < 4:
        return False
    parts = [each["records"] for topic in found.whole[1]["responses"] for each in topic["partitions"]]
    if found.path.endswith(".aborted_transactions"):
        return (found.kwire, found.kafka) == (None, []) and any(map(_ends_in_a_part, parts))
    if not found.path.endswith(".records") or not isinstance(found.kwire, list) or not isinstance(found.kafka, list):
        return False
    ours, theirs = found.kwire, found.kafka[:-1] if _ends_in_a_part(found.kafka) else found.kafka
    if list(map(_batch, ours[: len(theirs)])) != list(map(_batch, theirs)):
        return False
    if len(ours) == len(theirs):
        return _ends_in_a_part(found.kafka)
    return found.step.request.max_bytes == BYTES_FOR_A_PART and any(map(_ends_in_a_part, parts))


def _batch(shown: Any) -> Any:
    """Return the identity of a batch."""
    return (shown["base_offset"], shown["record_count"], shown["body"]) if isinstance(shown, dict) else shown


def _ends_in_a_part(records: Any) -> bool:
    return isinstance(records, list) and records != [] and str(records[-1]).endswith(MORE)


def _broker_setting(found: Difference) -> bool:
    if found.api != "DescribeConfigs" or ".configs." not in found.path:
        return False
    return at(found.whole[0], found.path, 4)["name"] in VALUES_DIFFER


def _features(found: Difference) -> bool:
    if found.api != "ApiVersions" or "_features" not in found.path:
        return False
    if found.path.endswith(".min_version"):
        return beside(found)[0]["name"] == "metadata.version" and found.kwire == SUPPORTED["metadata.version"][0]
    if not isinstance(found.kwire, list):
        return False
    ours = {each["name"] for each in found.kwire}
    return ours <= set(SUPPORTED) and ours == {each["name"] for each in found.kafka} & set(SUPPORTED)


def _batches_of_a_coordinator(found: Difference) -> bool:
    """Return True if the sizes differ by whole batch headers: the same records in another number of batches."""
    if found.api != "DescribeLogDirs" or not found.path.endswith("partition_size"):
        return False
    is_of_groups = at(found.whole[0], found.path, 4)["name"] == GROUP_OFFSETS_TOPIC
    return bool(is_of_groups and (found.kwire - found.kafka) % BATCH_HEADER_BYTES == 0)


def _stores_nothing(found: Difference) -> bool:
    """Return True for a group whose commit stored nothing: kwire has it at once, Kafka after a stored offset."""
    if found.api == "ListGroups" and found.path == "groups":
        extra = [each for each in found.kwire if each not in found.kafka]
        rest = [each for each in found.kwire if each in found.kafka]
        states = {(each["protocol_type"], each.get("group_state", "Empty")) for each in extra}
        return rest == found.kafka and states == {("", "Empty")}
    if found.api != "DescribeGroups" or found.path.count(".") < 2:
        return False
    ours, theirs = (at(whole, found.path, 2) for whole in found.whole)
    return (ours["protocol_type"], ours["group_state"], theirs["group_state"]) == ("", "Empty", "Dead")


RULES: tuple[Rule, ...] = (
    *RULES_OF_FAILURES,
    Rule(name="words where Kafka has none", excuses=_words),
    Rule(name="something named twice is answered once", excuses=_answered_once),
    Rule(name="topics named by the same unknown id", excuses=_unknown_ids, is_rare=True),
    Rule(name="a topic named without partitions", excuses=_without_partitions),
    Rule(name="loggers of a broker", excuses=_broker_logger, is_rare=True),
    Rule(name="a part of a batch at the end of a fetch", excuses=_half_a_batch),
    Rule(name="settings of the node, and defaults of its own", excuses=_broker_setting),
    Rule(name="features that are not served yet", excuses=_features),
    Rule(name="a group of which nothing is stored", excuses=_stores_nothing, is_rare=True),
    Rule(name="how many batches the records of a group coordinator are in", excuses=_batches_of_a_coordinator),
)


class Excuses:
    """Counts of how often each rule excused a difference."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def excuse(self, difference: Difference) -> bool:
        rule = _rule_for(difference) or _rule_for_its_code(difference)
        if rule is not None:
            self.counts[rule.name] += 1
        return rule is not None

    def idle(self) -> list[str]:
        """Return the names of rules that excused nothing."""
        return [rule.name for rule in RULES if not self.counts[rule.name]]

    def superfluous(self) -> list[str]:
        """Return the names of unused rules that every long script should use."""
        return [rule.name for rule in RULES if not self.counts[rule.name] and not rule.is_rare]


def _rule_for(difference: Difference) -> Rule | None:
    return next((rule for rule in RULES if rule.excuses(difference)), None)


def _rule_for_its_code(difference: Difference) -> Rule | None:
    """Return the rule for an error message whose error code differs: the rule for the code excuses the message too."""
    head, _, name = difference.path.rpartition(".")
    if name != "error_message":
        return None
    ours, theirs = (each.get("error_code") for each in beside(difference))
    if ours == theirs:
        return None
    path = f"{head}.error_code" if head else "error_code"
    found = differences(difference.step, *difference.whole, (Names(), Names()))
    return next((_rule_for(each) for each in found if each.path == path), None)
