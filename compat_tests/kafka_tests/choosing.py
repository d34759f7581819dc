"""Kafka's test classes: all in the jars, and the selection that fits into `make compat ROW=kafka-tests`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.kafka_tests.class_files import ancestry, classes_of
from compat_tests.kafka_tests.jars import LIBRARIES

ANNOTATIONS = b"org/apache/kafka/common/test/api/ClusterT"
"""Prefix of the names of @ClusterTest, @ClusterTests, @ClusterTemplate and @ClusterTestDefaults in a class file."""
TESTS = (b"Lorg/junit/jupiter/api/Test;", b"Lorg/junit/jupiter/params/ParameterizedTest;", ANNOTATIONS)
"""Annotations of test classes: a class with tests, or one of its superclasses, refers to one of them."""


@dataclass(frozen=True, slots=True)
class Family:
    """Test classes that create their cluster in the same way: they, or superclasses, refer to one of the marks."""

    jars: tuple[str, ...]
    marks: tuple[bytes, ...]


FAMILIES = {
    "cluster": Family(
        ("kafka-clients-integration-tests", "kafka-tools", "kafka-server", "kafka-storage", "kafka_2.13"),
        (ANNOTATIONS,),
    ),
    "streams": Family(
        ("kafka-streams-integration-tests",),
        (b"org/apache/kafka/streams/integration/utils/EmbeddedKafkaCluster", ANNOTATIONS),
    ),
    "connect": Family(("connect-runtime", "connect-mirror"), (b"org/apache/kafka/connect/util/clusters/Embedded",)),
    "scala": Family(("kafka_2.13",), (b"kafka/server/QuorumTestHarness", b"common/test/KafkaClusterTestKit")),
}

ROW = (
    "PlaintextConsumerAssignTest",
    "PlaintextConsumerCommitTest",
    "PlaintextConsumerFetchTest",
    "PlaintextConsumerPollTest",
    "ProducerIntegrationTest",
    "ProducerFailureHandlingTest",
    "TransactionsExpirationTest",
    "ListOffsetsIntegrationTest",
    "DescribeProducersWithBrokerIdTest",
    "AdminFenceProducersTest",
    "DeleteTopicTest",
    "MetadataRequestTest",
    "MinInSyncReplicasConfigTest",
    "GetOffsetShellTest",
    "LeaderElectionCommandTest",
    "DeleteRecordsCommandTest",
    "MetadataQuorumCommandTest",
    "ResetConsumerGroupOffsetTest",
)
"""Classes that need 20 minutes on two cores: for each area those that test most behaviour in their time."""


@cache
def family_tests(family: str) -> Sequence[str]:
    """Return the names of all classes of a family that have tests."""
    own = FAMILIES[family]
    return [
        name.replace("/", ".")
        for jar in (LIBRARIES / f"{each}-{KAFKA_VERSION}-test.jar" for each in own.jars)
        for name, file in sorted(classes_of(jar).items())
        if file.is_concrete and _refers(jar, name, own.marks) and _refers(jar, name, TESTS)
    ]


def _refers(jar: Path, name: str, marks: tuple[bytes, ...]) -> bool:
    return any(mark in file.content for file in ancestry(jar, name) for mark in marks)


def all_tests() -> list[str]:
    return [name for family in FAMILIES for name in family_tests(family)]


def family_of(selector: str) -> str:
    name = selector.partition("#")[0]
    return next(family for family in FAMILIES if name in family_tests(family))


def named(wanted: str) -> list[str]:
    """Return the selectors for `Class` or `Class#method`, with or without package. Raises SystemExit if none match."""
    name, _, method = wanted.partition("#")
    classes = [each for each in all_tests() if each == name or each.rpartition(".")[2] == name]
    if not classes:
        raise SystemExit(f"{wanted}: no such class; --list names all")
    return [f"{each}#{method}" if method else each for each in classes]
