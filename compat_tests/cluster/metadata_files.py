"""The files of a metadata log as Kafka's DumpLogSegments and its metadata shell show them."""

import json
import re
import subprocess

from compat_tests.harness.reference import KAFKA_VERSION, class_path
from compat_tests.old_clients.installing import java_jars

JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF")
SECONDS_MAX = 60
CONTROL = re.compile(r"\] (SnapshotHeader|SnapshotFooter|LeaderChange|KRaftVersion|KRaftVoters):? \{")
PAYLOAD = re.compile(r" payload: (\{.*\})$", re.MULTILINE)
TROUBLE = re.compile(r"rror|isvalid: false|Could not|Skipping|Found|xception")


def dumped(paths):
    """What DumpLogSegments shows: names of KRaft's own records, and the metadata records as (type, data)."""
    command = [
        "java",
        *JVM,
        "-cp",
        class_path(),
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
    ]
    ran = subprocess.run(
        [*command, "--files", ",".join(map(str, paths))],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    # Texts of configurations are anybody's; what the tool itself complains of is outside of payloads.
    assert not TROUBLE.search(PAYLOAD.sub("", ran.stdout)), ran.stdout
    assert ran.stderr == ""
    records = [json.loads(payload) for payload in PAYLOAD.findall(ran.stdout)]
    return set(CONTROL.findall(ran.stdout)), [(each["type"], each["data"]) for each in records]


def shell(snapshot, *command):
    """What the metadata shell says to a command. It may say it before it has read all of the file."""
    jars = java_jars("kafka-shell", KAFKA_VERSION)
    main = ["java", *JVM, "-cp", f"{jars}/*", "org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot)]
    ran = subprocess.run([*main, *command], capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    return ran.stdout.splitlines()
