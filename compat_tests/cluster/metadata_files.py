"""Files of a metadata log, read by Kafka's DumpLogSegments and by its metadata shell."""

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
    """Return DumpLogSegments' output: names of KRaft's control records, and metadata records as (type, data)."""
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
    # Configuration values can contain any text; the tool's own complaints are outside of payloads.
    assert not TROUBLE.search(PAYLOAD.sub("", ran.stdout)), ran.stdout
    assert ran.stderr == ""
    records = [json.loads(payload) for payload in PAYLOAD.findall(ran.stdout)]
    return set(CONTROL.findall(ran.stdout)), [(each["type"], each["data"]) for each in records]


def shell(snapshot, *command):
    """Return the metadata shell's output for a command. The shell may answer before it has read the whole file."""
    jars = java_jars("kafka-shell", KAFKA_VERSION)
    main = ["java", *JVM, "-cp", f"{jars}/*", "org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot)]
    ran = subprocess.run([*main, *command], capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    return ran.stdout.splitlines()
