"""Brokers with two log directories, between which the tools move replicas."""

import json

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.reference import ApacheKafka
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_tools.comparing import Both, Side

REASSIGN = "kafka-reassign-partitions"
DIRECTORIES = ("data", "more")


def two_directories(broker):
    """Add a second log directory to the settings file."""
    settings = broker.properties.read_text()
    first, second = (str(broker.directory / name) for name in DIRECTORIES)
    broker.properties.write_text(settings.replace(f"log.dirs={first}", f"log.dirs={first},{second}"))


class KwireWithTwo(KwireBroker):
    def prepare(self):
        super().prepare()
        two_directories(self)


class KafkaWithTwo(ApacheKafka):
    def write_settings(self):
        super().write_settings()
        two_directories(self)


@pytest.fixture(scope="module")
def both_with_two(request, archive, tmp_path_factory):
    kinds = [KafkaWithTwo] if request.config.getoption("--broker") == "kafka" else [KwireWithTwo, KafkaWithTwo]
    brokers = [kind(tmp_path_factory.mktemp(kind.name), free_ports(1)[0]) for kind in kinds]
    try:
        for broker in brokers:
            broker.start()
        sides = [Side(broker, archive) for broker in brokers]
        yield Both(sides[0], sides[1] if len(sides) > 1 else None)
    finally:
        for broker in brokers:
            if broker.process is not None:
                broker.stop()


def places(side, topic):
    """Return (directory, whether it is a future log) of each replica of a topic."""
    reported = side.tools.run("kafka-log-dirs", "--describe", "--topic-list", topic)
    (broker,) = json.loads(reported.lines[-1])["brokers"]
    return {
        (found["logDir"].rpartition("/")[2], replica["isFuture"])
        for found in broker["logDirs"]
        for replica in found["partitions"]
    }


def plan_for(side, topic, name, tmp_path):
    path = tmp_path / f"{side.name}-{name}.json"
    replica = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(side.broker.directory / name)]}
    path.write_text(json.dumps({"version": 1, "partitions": [replica]}))
    return str(path)


def test_a_replica_moves_to_another_directory_and_back(both_with_two, topic, tmp_path):
    for side in both_with_two.sides:
        create_topic(side.broker.bootstrap, topic)
        text = "".join(f"{number}\n" for number in range(500))
        process = side.tools.start("kafka-console-producer", "--topic", topic, stdin=-1)
        assert side.tools.finish(process, text).status == 0
    reported = []
    for side in both_with_two.sides:
        steps = []
        for name in DIRECTORIES[::-1]:
            plan = ("--reassignment-json-file", plan_for(side, topic, name, tmp_path))
            executed = side.tools.run(REASSIGN, "--execute", *plan, "--replica-alter-log-dirs-throttle", "50000000")
            eventually(lambda side=side, name=name: places(side, topic) == {(name, False)}, f"it is in {name}", 30)
            verified = side.tools.run(REASSIGN, "--verify", *plan)
            steps += [(ran.status, side.normal(ran.said)) for ran in (executed, verified)]
        consumed = side.tools.run(
            "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "500"
        )
        reported.append((steps, consumed.output))
    assert reported[0] == reported[-1]
    assert reported[0][1].split() == [str(number) for number in range(500)]


def test_a_directory_that_the_broker_does_not_have(both_with_two, topic, tmp_path):
    reported = []
    for side in both_with_two.sides:
        create_topic(side.broker.bootstrap, topic)
        plan = ("--reassignment-json-file", plan_for(side, topic, "nowhere", tmp_path))
        ran = side.tools.run(REASSIGN, "--execute", *plan)
        reported.append((ran.status, side.normal(ran.output)))
    assert reported[0] == reported[-1]
