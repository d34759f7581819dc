"""Rules for values of requests about the cluster, quotas, features, credentials and telemetry."""

from compat_tests.differential.drawing import Rule, Scope
from compat_tests.differential.lazy import Known
from compat_tests.differential.random_source import MISSING_ID, NO_ID, RandomSource

METADATA = "__cluster_metadata"
USERS = ("ann", "bob", "", "User:ann")
QUOTA_KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
FEATURES = ("metadata.version", "kraft.version", "never.heard", "")


def _entity_type(random_source: RandomSource, _: Scope) -> str:
    return random_source.pick(("user", "client-id", "ip"), ("", "never", "User"), 0.06)


def _entity_name(random_source: RandomSource, scope: Scope) -> str | None:
    """Return a name that no client of the script has, so that no quota takes effect."""
    if random_source.often(0.1):
        return None if scope["entity_type"] == "user" else "nobody"
    return (
        random_source.choice(("10.1.2.3", "not an address", "::1"))
        if scope["entity_type"] == "ip"
        else random_source.choice(("a", "b", ""))
    )


def _quota_key(random_source: RandomSource, _: Scope) -> str:
    return random_source.pick((*QUOTA_KEYS, "connection_creation_rate"), ("", "never_heard"), 0.06)


def _instance(random_source: RandomSource, _: Scope) -> object:
    return random_source.one_of(
        (60, Known(("telemetry", random_source.randrange(2)), NO_ID)), (30, NO_ID), (10, MISSING_ID)
    )


RULES: dict[str, Rule] = {
    "client_software_name": lambda random_source, _: random_source.pick(
        ("script", "a-b.c"), ("", "-", "bad name", "x" * 300), 0.2
    ),
    "client_software_version": lambda random_source, _: random_source.pick(("1.0",), ("", "1 0", ".1"), 0.2),
    "mechanism": lambda random_source, _: random_source.choice(("PLAIN", "", "SCRAM-SHA-256", "never")),
    "entity_type": _entity_type,
    "entity_name": _entity_name,
    "AlterClientQuotasOperation.key": _quota_key,
    "AlterClientQuotasOperation.value": lambda random_source, _: random_source.pick(
        (1e9, 5e8), (0.0, -1.0, 0.5, 1e300), 0.3
    ),
    "remove": lambda random_source, _: random_source.often(0.3),
    "match_type": lambda random_source, _: random_source.one_of((50, 0), (20, 1), (20, 2), (5, 3), (5, -1)),
    "match": lambda random_source, _: random_source.choice((None, "a", "b", "10.1.2.3", "")),
    "ScramCredentialDeletion.name": lambda random_source, _: random_source.choice(USERS),
    "ScramCredentialDeletion.mechanism": lambda random_source, _: random_source.pick((1, 2), (0, 3, -1), 0.1),
    "ScramCredentialUpsertion.name": lambda random_source, _: random_source.choice(USERS),
    "ScramCredentialUpsertion.mechanism": lambda random_source, _: random_source.pick((1, 2), (0, 3, -1), 0.1),
    "iterations": lambda random_source, _: random_source.pick((4096, 16384), (0, -1, 4095, 16385), 0.2),
    # Never empty: kwire rejects empty values, Kafka only some of them (docs/differences.md).
    "salt": lambda random_source, _: random_source.choice((b"salt", b"\x00")),
    "salted_password": lambda random_source, _: random_source.choice((b"salted", b"\xff")),
    "DescribeUserScramCredentialsUserName.name": lambda random_source, _: random_source.choice(USERS),
    "DescribeQuorumRequestTopicData.topic_name": lambda random_source, _: random_source.pick(
        ("__cluster_metadata",), ("t0", ""), 0.2
    ),
    "DescribeQuorumRequestPartitionData.partition_index": lambda random_source, _: random_source.choice(
        (0, 0, 0, 1, -1)
    ),
    "feature": lambda random_source, _: random_source.choice(FEATURES),
    "max_version_level": lambda random_source, _: random_source.choice((30, 1, 0, 31, -1, 2)),
    "upgrade_type": lambda random_source, _: random_source.choice((1, 1, 0, 2, 3, 4)),
    "endpoint_type": lambda random_source, _: random_source.one_of((85, 1), (5, 2), (5, 0), (5, 99)),
    "UnregisterBrokerRequest.broker_id": lambda random_source, _: random_source.choice((2, 7, -1, 2**31 - 1)),
    "client_instance_id": _instance,
    "subscription_id": lambda random_source, _: random_source.choice((0, 0, 1, -1)),
    "compression_type": lambda random_source, _: random_source.choice((0, 0, 1, 4, 5, -1)),
    "terminating": lambda random_source, _: random_source.often(0.1),
    "resource_types": lambda random_source, _: random_source.choice(
        ([], [], [2], [4], [8], [16], [32], [0], [99], [2, 4, 2])
    ),
    "resource_type_filter": lambda random_source, _: random_source.choice((1, 2, 3, 0, 99)),
    "auth_bytes": lambda random_source, _: random_source.choice((b"", b"\0ann\0secret")),
    "hmac": lambda random_source, _: random_source.choice((b"", b"12345678")),
}
