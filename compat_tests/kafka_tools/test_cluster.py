"""The cluster as a whole: identity, quorum, features, versions, directories, elections, reassignments, transactions."""

import json
import re

from compat_tests.kafka_tools.comparing import without_numbers

REASSIGN = "kafka-reassign-partitions"
EPOCH = re.compile(r"Epoch: \d+")


def test_identity_and_endpoints(both):
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", both.run("kafka-cluster", "cluster-id").output)
    for fenced in ((), ("--include-fenced-brokers",)):
        listed = both.run("kafka-cluster", "list-endpoints", *fenced)
        assert listed.lines[1].split() == ["1", "127.0.0.1", str(both.tested.broker.port), "null", "unfenced", "broker"]


def test_a_broker_that_is_not_registered_cannot_be_unregistered(both):
    rejected = both.run("kafka-cluster", "unregister", "--id", "77", status=1)
    assert "Broker ID 77 is not currently registered" in rejected.errors


def test_the_quorum_of_one(both):
    status = both.run("kafka-metadata-quorum", "describe", "--status", change=without_numbers)
    assert "LeaderId: 1" in re.sub(r" +", " ", status.output)
    replicas = both.run("kafka-metadata-quorum", "describe", "--replication", change=without_numbers)
    assert replicas.lines[1].split()[-1] == "Leader"
    reported = both.run(
        "kafka-metadata-quorum", "describe", "--replication", "--human-readable", change=without_numbers
    )
    assert "ms ago" in reported.output


def test_versions_that_both_serve_are_the_same(both):
    """The API lists agree for APIs that both serve: kwire does not advertise APIs that it does not serve."""
    answers = both.run_each("kafka-broker-api-versions")
    ours, theirs = [dict(re.findall(r"(\w+\(\d+\)): (.+?),?$", ran.output, re.M)) for ran in (answers[0], answers[-1])]
    assert ours.keys() == theirs.keys()
    served = {api: versions for api, versions in ours.items() if versions != "UNSUPPORTED"}
    assert len(served) >= 29
    assert served == {api: theirs[api] for api in served}
    assert [ran.status for ran in answers] == [0] * len(answers)


def test_log_directories_are_described(both, new_topic):
    name = new_topic(2)
    described = both.run("kafka-log-dirs", "--describe", "--topic-list", name)
    [broker] = json.loads(described.lines[-1])["brokers"]
    assert sorted(each["partition"] for each in broker["logDirs"][0]["partitions"]) == [f"{name}-0", f"{name}-1"]
    rejected = both.run("kafka-log-dirs", "--describe", "--broker-list", "1,5", status=1)
    assert "do not exist" in rejected.errors


def test_preferred_leaders_lead_already(both, new_topic):
    one = ("--election-type", "preferred", "--topic", new_topic(), "--partition", "0")
    assert "Valid replica already elected" in both.run("kafka-leader-election", *one).output
    both.run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions", change=lambda text: "")


def test_electing_leaders_of_an_unknown_topic_fails(both, new_topic, json_file):
    name = new_topic()
    wanted = [{"topic": each, "partition": 0} for each in (name, f"{name}-none")]
    plan = json_file("plan", {"partitions": wanted})
    rejected = both.run("kafka-leader-election", "--election-type", "unclean", "--path-to-json-file", plan, status=1)
    assert "1 replica(s) could not be elected" in rejected.errors


def test_a_reassignment_to_the_current_replica_completes(both, new_topic, json_file):
    name = new_topic()
    topics = json_file("topics", {"version": 1, "topics": [{"topic": name}]})
    both.run(REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1")
    plan = {"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [1], "log_dirs": ["any"]}]}
    plan_file = json_file("plan", plan)
    for step, words in (("--execute", "Successfully started"), ("--verify", "is completed"), ("--cancel", "None of")):
        assert words in both.run(REASSIGN, step, "--reassignment-json-file", plan_file).output
    assert both.run(REASSIGN, "--list").lines == ["No partition reassignments found."]
    plan["partitions"][0]["replicas"] = [7]
    rejected = both.run(REASSIGN, "--execute", "--reassignment-json-file", json_file("wrong", plan), status=1)
    assert "Unknown broker id 7" in rejected.said


def test_replicas_are_verified(both, new_topic, tmp_path):
    name = new_topic()
    both.run("kafka-console-producer", "--topic", name, text="a\nb\n")
    choice = ("--topics-include", name, "--report-interval-ms", "500")
    with both.running(tmp_path, "kafka-replica-verification", *choice, until="max lag") as outputs:
        reports = [re.search(r"max lag is .*", output.read_text()) for output in outputs]
    assert {report[0] for report in reports if report} == {
        f"max lag is 0 for partition {name}-0 at offset 2 among 1 partitions"
    }


def test_there_are_no_share_or_streams_groups(both):
    assert both.run("kafka-share-groups", "--list").output.strip() == ""
    assert both.run("kafka-streams-groups", "--list").output.strip() == ""


def test_a_streams_application_is_reset(both, new_topic, unique):
    name = new_topic(2)
    both.run("kafka-console-producer", "--topic", name, text="a\nb\n")
    arguments = ("--application-id", unique("app"), "--input-topics", name)
    planned = both.run("kafka-streams-application-reset", *arguments, "--dry-run")
    assert f"Topic: {name} Partition: 0 Offset: 0" in planned.output
    assert "Done." in both.run("kafka-streams-application-reset", *arguments).output
