"""Kafka's tools for quorum, features and identity, through brokers and at the controllers of three combined nodes."""

import re

import pytest

from compat_tests.cluster.sides import CONTROLLERS, through
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_tools.comparing import without_numbers
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient

QUORUM = "kafka-metadata-quorum"
FEATURES = "kafka-features"
API = re.compile(r"^\t(\w+\(\d+\): .+?),?$", re.MULTILINE)
LEVEL = re.compile(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)")


@pytest.fixture(scope="module")
def shape():
    return "combined"


def sorted_figures(text):
    """Replace numbers and sort lines: the leader and the figures differ between the clusters."""
    return "\n".join(sorted(without_numbers(text).splitlines()))


def rejected(both, *command):
    """Run a command that must fail on both sides with the same exception; its message may differ."""
    answers = both.run_each(*command)
    names = [set(re.findall(r"errors\.(\w+Exception)", ran.said)) for ran in answers]
    assert names[0] == names[-1], [ran.said for ran in answers]
    assert all(ran.status == 1 for ran in answers)
    return names[0]


def replicas(side):
    """Return a map from node id to status, as the tool prints it."""
    lines = side.tools.run(QUORUM, "describe", "--replication").lines[1:]
    return {int(line.split()[0]): line.split()[-1] for line in lines}


@pytest.mark.parametrize("where", [through(2), CONTROLLERS])
def test_the_quorum_of_three(both, where):
    status = both.run(QUORUM, *where, "describe", "--status", change=without_numbers)
    assert re.findall(r'"id": (\d), "directoryId": "[\w-]{22}", "endpoints": \["CONTROLLER:', status.output) == [
        "1",
        "2",
        "3",
    ]
    reported = both.run(QUORUM, *where, "describe", "--replication", change=sorted_figures)
    assert sorted(line.split()[-1] for line in reported.lines[1:]) == ["Follower", "Follower", "Leader"]


def test_a_voter_is_removed_and_added_again(both):
    leaders = {next(node_id for node_id, status in replicas(side).items() if status == "Leader") for side in both.sides}
    goes = next(node_id for node_id in (3, 2, 1) if node_id not in leaders)
    who = ("--controller-id", str(goes), "--controller-directory-id", f"{{DIRECTORY{goes}}}")
    remove, add = (
        ("remove-controller", *who),
        ("--command-config", f"{{HOME{goes}}}/server.properties", "add-controller"),
    )
    assert "DRY RUN" in both.run(QUORUM, *remove, "--dry-run").output
    assert f"Removed  KRaft controller {goes}" in both.run(QUORUM, *remove).output
    assert rejected(both, QUORUM, *CONTROLLERS, *remove) == {"VoterNotFoundException"}
    for side in both.sides:
        eventually(lambda side=side: replicas(side)[goes] == "Observer", "it watches only")
    assert "DRY RUN" in both.run(QUORUM, *CONTROLLERS, *add, "--dry-run").output
    assert f"Added controller {goes}" in both.run(QUORUM, *CONTROLLERS, *add).output
    assert rejected(both, QUORUM, *add) == {"DuplicateVoterException"}
    for side in both.sides:
        eventually(lambda side=side: replicas(side)[goes] == "Follower", "it votes again")


@pytest.mark.parametrize("where", [(), CONTROLLERS])
def test_removing_an_unknown_voter_returns_voter_not_found(both, where):
    for node_id, directory in (("9", "{DIRECTORY1}"), ("1", "{DIRECTORY2}")):
        who = ("--controller-id", node_id, "--controller-directory-id", directory)
        assert rejected(both, QUORUM, *where, "remove-controller", *who) == {"VoterNotFoundException"}


def test_features_are_downgraded_and_upgraded(both):
    def level(*where):
        reported = [dict(LEVEL.findall(ran.output)) for ran in both.run_each(FEATURES, *where, "describe")]
        assert reported[0].items() <= reported[-1].items()
        return reported[0]["transaction.version"]

    for there, other in ((through(3), CONTROLLERS), (CONTROLLERS, through(2))):
        planned = both.run(FEATURES, *there, "downgrade", "--feature", "transaction.version=1", "--dry-run")
        assert planned.lines == ["transaction.version can be downgraded to 1."]
        changed = both.run(FEATURES, *there, "downgrade", "--feature", "transaction.version=1")
        assert changed.lines == ["transaction.version was downgraded to 1."]
        eventually(lambda other=other: level(*other) == "1", "the lower level is reported")
        changed = both.run(FEATURES, *other, "upgrade", "--feature", "transaction.version=2")
        assert changed.lines == ["transaction.version was upgraded to 2."]
        eventually(lambda there=there: level(*there) == "2", "the higher level is reported")


@pytest.mark.parametrize("where", [(), CONTROLLERS])
@pytest.mark.parametrize(
    "requested",
    [
        ("upgrade", "--feature", "transaction.version=9"),
        ("upgrade", "--feature", "nope=1"),
        ("disable", "--feature", "metadata.version"),
    ],
)
def test_invalid_feature_levels_are_rejected(both, where, requested):
    first_line = lambda text: text.partition(". ")[0]  # noqa: E731 - the messages differ
    both.run(FEATURES, *where, *requested, status=1, change=first_line)


@pytest.mark.parametrize("where", [through(2), CONTROLLERS])
def test_cluster_id_endpoints_and_unregistration_match(both, where):
    assert both.run("kafka-cluster", "cluster-id", *where).output == "Cluster ID: kwireCompatQuorum00000\n"
    listed = both.run("kafka-cluster", "list-endpoints", *where)
    assert [line.split()[0] for line in listed.lines[1:]] == ["1", "2", "3"]
    rejected = both.run("kafka-cluster", "unregister", *where, "--id", "77", status=1)
    assert "Broker ID 77 is not currently registered" in rejected.errors


def test_brokers_list_the_same_api_versions(both):
    """The API lists agree for APIs that both serve: kwire does not advertise APIs that it does not serve."""
    answers = both.run_each("kafka-broker-api-versions")
    ours, theirs = (
        [set(API.findall(part)) for part in ran.output.split("\n)")[:3]] for ran in (answers[0], answers[-1])
    )
    assert ours[0] == ours[1] == ours[2]
    served = {each for each in ours[0] if "UNSUPPORTED" not in each}
    assert len(served) > 30
    assert served <= theirs[0]


def test_controllers_list_the_same_api_versions(both):
    reported = []
    for side in both.sides:
        for node in side.cluster.controllers:
            with RawClient(node.address) as client:
                versions = client.ask(ApiVersionsRequest(), 3).api_keys
            reported.append({each.api_key: (each.min_version, each.max_version) for each in versions})
    assert reported[0] == reported[1] == reported[2]
    assert reported[0] == reported[-1]


def test_acls_are_off_at_controllers_too(both):
    assert "SecurityDisabledException" in both.run("kafka-acls", *CONTROLLERS, "--list", status=1).said
