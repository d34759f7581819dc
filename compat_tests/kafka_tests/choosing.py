"""Kafka's test classes: all that the jars have, and the choice that `make compat ROW=kafka-tests` has time for."""

import zipfile

from compat_tests.harness.reference import KAFKA_VERSION
from compat_tests.kafka_tests.jars import LIBRARIES

ANNOTATIONS = b"org/apache/kafka/common/test/api/ClusterT"
"""Begins the names of @ClusterTest, @ClusterTests, @ClusterTemplate and @ClusterTestDefaults in a class file."""
JARS = ("kafka-clients-integration-tests", "kafka-tools", "kafka-server", "kafka-storage", "kafka_2.13")

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
"""A choice that needs 20 minutes on two cores: of each area its classes with most behaviour for their time."""


def cluster_tests() -> list[str]:
    """Names of all classes whose tests ask for a cluster by annotation."""
    found = []
    for jar in JARS:
        with zipfile.ZipFile(LIBRARIES / f"{jar}-{KAFKA_VERSION}-test.jar") as classes:
            for name in sorted(classes.namelist()):
                if name.endswith(".class") and "$" not in name and ANNOTATIONS in classes.read(name):
                    found += [name.removesuffix(".class").replace("/", ".")]
    return found


def named(wanted: str) -> list[str]:
    """Return the selectors for `Class`, `Class#method`, or either with its package. Raises SystemExit for none."""
    name, _, method = wanted.partition("#")
    classes = [each for each in cluster_tests() if each == name or each.rpartition(".")[2] == name]
    if not classes:
        raise SystemExit(f"{wanted}: no such class; --list names all")
    return [f"{each}#{method}" if method else each for each in classes]
