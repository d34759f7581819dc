"""kafka-storage format and kwire format: equal options give equal files, and each broker starts on the other's."""

import subprocess
import sys
from dataclasses import replace
from uuid import UUID

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.process import write_properties
from compat_tests.harness.reference import CLUSTER_ID, ApacheKafka, class_path
from compat_tests.kafka_tools.tools import JVM, SECONDS_MAX
from kwire.cluster.directory import load_meta_properties
from kwire.cluster.raft.snapshots import decode_snapshot
from kwire.log.disk import RealDisk
from kwire.protocol.messages.control_records import VotersRecord
from kwire.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.support.raw_client import RawClient

ONE = "1@127.0.0.1:9193:JEXY6aqzQY-32P5TStzaFg"
TWO = "2@127.0.0.2:9193:MvDxzVmcRsaTz33bUuRU6A"
SERVERS = {"controller.quorum.bootstrap.servers": "127.0.0.1:9193"}
CLIENTS = "PLAINTEXT://127.0.0.1:9192"
CONTROLLERS = "CONTROLLER://127.0.0.1:9193"
NODES = {
    "combined": {"process.roles": "broker,controller", "listeners": f"{CLIENTS},{CONTROLLERS}", **SERVERS},
    "controller": {"process.roles": "controller", "listeners": "CONTROLLER://:9193", **SERVERS},
    "broker": {"process.roles": "broker", "listeners": CLIENTS, **SERVERS},
    "static": {
        "process.roles": "broker,controller",
        "listeners": f"{CLIENTS},{CONTROLLERS}",
        "controller.quorum.voters": "1@127.0.0.1:9193",
    },
}
SALT = 'salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="'
ALICE = f"SCRAM-SHA-256=[name=alice,iterations=8192,{SALT},password=alice-secret]"
BOB = f'SCRAM-SHA-512=[name="bob",{SALT},password="bob=secret"]'
SALTED = f'SCRAM-SHA-512=[name=carol,iterations=16384,{SALT},saltedpassword="YCE="]'
BOTH_PASSWORDS = f"SCRAM-SHA-256=[name=dave,{SALT},password=x,saltedpassword=YCE=]"
NAMELESS = f"SCRAM-SHA-256=[name=,{SALT},password=x]"
UNUSUAL = " SCRAM-SHA-256=[name=eve,name=a=b c,salt=,password= x,iterations=+4096,,] "
NO_USERS = (
    "SCRAM-SHA-1=[name=a,password=x]",
    "SCRAM-SHA-256=name=a,password=x]",
    "SCRAM-SHA-256=[name=a,password=x",
    "SCRAM-SHA-256=[,]",
    "SCRAM-SHA-256=[password=x]",
    "SCRAM-SHA-256=[name=a]",
    "SCRAM-SHA-256=[name=a, password=x]",
    "SCRAM-SHA-256=[name=a,saltedpassword=YCE=]",
    "SCRAM-SHA-256=[name=a,password=x,iterations=4095]",
    "SCRAM-SHA-512=[name=a,password=x,iterations=16385]",
)
WITHOUT_WHAT_WAS_TYPED = {
    "": "Failed to find equals sign in SCRAM argument 1",
    "SCRAM-SHA-256:a:hunter2=[]": "The add-scram mechanism of argument 1 is not supported.",
    "SCRAM-SHA-256=[]": "No equals sign found in SCRAM component 1",
    "SCRAM-SHA-256=[name=a,password=hun,ter2]": "No equals sign found in SCRAM component 3",
    "SCRAM-SHA-256=[name=a,password=x,salt=N3E==]": "Failed to decode given salt: it is not base64",
    "SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=hunter2*]": (
        "Failed to decode given saltedPassword: it is not base64"
    ),
    "SCRAM-SHA-256=[name=a,password=x,salt=N3E=,iterations=4_096]": (
        "Failed to parse iterations count: it is not an integer of 32 bits"
    ),
    "SCRAM-SHA-256=[name=a,password=hun,ter2=x]": "Unknown SCRAM configurations: component 3",
}
"""kwire's error messages; Kafka's begin with the same words and then repeat the user's input, which may be secret."""
TOOLS = {
    "kafka": lambda: ["java", *JVM, "-cp", class_path(), "kafka.tools.StorageTool"],
    "kwire": lambda: [sys.executable, "-m", "kwire"],
}


def run(tool, properties, *options):
    command = [*TOOLS[tool](), "format", "-t", CLUSTER_ID, "-c", str(properties), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def format_each(directory, node, *options):
    """Format the same node with each tool in its own directory; return both outputs."""
    ended = []
    for tool in TOOLS:
        home = directory / tool
        home.mkdir()
        own = {"node.id": "1", "controller.listener.names": "CONTROLLER"}
        dirs = {"log.dirs": f"{home / 'a'},{home / 'b'}", "metadata.log.dir": str(home / "m")}
        write_properties(home / "server.properties", {**own, **dirs, **NODES[node]})
        ended.append(run(tool, home / "server.properties", *options))
    return ended


def content(home):
    """Return the decoded files below a directory, without generated ids and timestamps."""
    made_up = set()
    found = {}
    for name in "abm":
        meta = load_meta_properties(RealDisk(), str(home / name))
        found[name] = (meta.cluster_id, meta.node_id)
        made_up.add(meta.directory_id)
    assert len(made_up) == 3
    for path in sorted(home.rglob("*.checkpoint")):
        snapshot = decode_snapshot(path.read_bytes())
        assert (snapshot.last_contained_timestamp_ms == 0) == (path.name == "bootstrap.checkpoint")
        controls = [without_ids(record, made_up) for _, record in snapshot.controls]
        found[str(path.relative_to(home))] = (controls, list(snapshot.records))
    return found


def without_ids(record, made_up):
    if not isinstance(record, VotersRecord):
        return record
    return [
        replace(voter, voter_directory_id=UUID(int=0)) if voter.voter_directory_id in made_up else voter
        for voter in record.voters
    ]


@pytest.mark.parametrize(
    ("node", "options"),
    [
        ("combined", ["--standalone"]),
        ("controller", ["-s"]),
        ("controller", ["--initial-controllers", f"{ONE},{TWO}"]),
        ("controller", ["-I", TWO]),
        ("combined", ["--no-initial-controllers", "-r", "4.3"]),
        ("broker", ["-f", "transaction.version=1"]),
        ("broker", ["-I", ONE]),
        ("static", []),
        ("static", ["-N"]),
        ("combined", ["--standalone", "--add-scram", ALICE, "-S", BOB]),
        ("broker", ["-S", SALTED, "-S", BOTH_PASSWORDS, "-S", UNUSUAL, "-S", NAMELESS]),
        ("static", ["--add-scram", BOB, "--add-scram", BOB.replace("secret", "other")]),
    ],
)
def test_both_tools_write_the_same_files(tmp_path, node, options):
    kafka, kwire = format_each(tmp_path, node, *options)
    assert (kafka.returncode, kwire.returncode) == (0, 0), (kafka, kwire)
    assert content(tmp_path / "kwire") == content(tmp_path / "kafka")
    said = [
        {line for line in ended.stdout.replace(f"/{tool}/", "/").splitlines() if line.startswith("Formatting")}
        for tool, ended in (("kafka", kafka), ("kwire", kwire))
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("node", "options"),
    [
        ("combined", []),
        ("controller", []),
        ("broker", ["-s"]),
        ("static", ["-s"]),
        ("static", ["-I", ONE]),
        ("static", ["-f", "kraft.version=1"]),
        ("controller", ["-s", "-f", "kraft.version=0"]),
        ("controller", ["-s", "-f", "metadata.version=30", "-r", "4.3"]),
        ("controller", ["-s", "-f", "nope.version=1"]),
        *(("controller", ["-s", "-S", argument]) for argument in NO_USERS),
        ("controller", ["-s", "-S", ALICE, "-S", "SCRAM-SHA-256=[name=a]"]),
    ],
)
def test_invalid_options_are_rejected_with_kafkas_message(tmp_path, node, options):
    kafka, kwire = format_each(tmp_path, node, *options)
    assert (kafka.returncode, kwire.returncode) == (1, 1), (kafka, kwire)
    assert kwire.stderr.removeprefix("kwire: ") == kafka.stderr
    assert not (tmp_path / "kwire" / "m").exists()


@pytest.mark.parametrize("argument", WITHOUT_WHAT_WAS_TYPED)
def test_an_error_message_does_not_repeat_a_password(tmp_path, argument):
    kafka, kwire = format_each(tmp_path, "controller", "-s", "-S", argument)
    assert (kafka.returncode, kwire.returncode) == (1, 1), (kafka, kwire)
    words = WITHOUT_WHAT_WAS_TYPED[argument]
    assert kwire.stderr == f"kwire: {words}\n"
    assert kafka.stderr.split()[:3] == words.split()[:3]
    assert ("ter2" in kafka.stderr) == ("ter2" in argument)


def test_both_tools_recognise_formatted_directories(tmp_path):
    format_each(tmp_path, "combined", "-s")
    for formatted in TOOLS:
        properties = tmp_path / formatted / "server.properties"
        for tool in TOOLS:
            again = run(tool, properties, "-s")
            assert again.returncode == 1
            assert "is already formatted. Use --ignore-formatted to ignore this directory" in again.stderr
            ignored = run(tool, properties, "-s", "--ignore-formatted")
            assert (ignored.returncode, ignored.stdout) == (0, "All of the log directories are already formatted.\n")


class KafkaOnKwires(ApacheKafka):
    """Apache Kafka in a directory that kwire formatted."""

    def prepare(self):
        self.write_settings()
        ended = run("kwire", self.properties, "--standalone", "-S", ALICE, "-S", BOB)
        assert ended.returncode == 0, ended


class KwireOnKafkas(KwireBroker):
    """kwire in a directory that Kafka formatted, as the only voter of a configured quorum."""

    def prepare(self):
        super().prepare()
        (port,) = free_ports(1)
        with self.properties.open("a") as properties:
            properties.write(
                f"process.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
                f"listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{port}\n"
                f"controller.quorum.bootstrap.servers=127.0.0.1:{port}\n"
            )
        ended = run("kafka", self.properties, "--standalone", "-S", ALICE, "-S", BOB)
        assert ended.returncode == 0, ended


def users(broker):
    """Return the SCRAM mechanisms and iterations of all users."""
    with RawClient(broker.bootstrap) as client:
        answer = client.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    assert answer.error_code == 0
    return {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in answer.results}


@pytest.mark.parametrize("kind", [KafkaOnKwires, KwireOnKafkas])
def test_each_broker_serves_what_the_other_formatted(tmp_path, kind):
    broker = kind(tmp_path, free_ports(1)[0])
    try:
        broker.start()
        create_topic(broker.bootstrap, "formed")
        assert users(broker) == {"alice": [(1, 8192)], "bob": [(2, 4096)]}
        broker.restart()
        create_topic(broker.bootstrap, "again")
        assert users(broker) == {"alice": [(1, 8192)], "bob": [(2, 4096)]}
    finally:
        broker.stop()
    assert (tmp_path / "data" / "formed-0").is_dir()
    assert (tmp_path / "data" / "again-0").is_dir()
