"""Runs of test classes in JVMs, on kwire processes or on Kafka's own cluster, and the results of each invocation."""

import collections
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from compat_tests.harness.suites import run_bounded
from compat_tests.kafka_tests.choosing import family_of
from compat_tests.kafka_tests.jars import NOT_FOR_CONNECT, class_path
from kwire.cluster.metadata.features import METADATA_VERSION, SUPPORTED

JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
HEAP = {"kwire": "-Xmx512m", "kafka": "-Xmx1g"}
CONNECT_HEAP = "-Xmx1g"
"""Heap for Connect: its workers leave much garbage, and with half of it a class of 17 tests mostly collects garbage."""
LOGGING = Path(__file__).with_name("log4j2.properties")
PLUG_INS = Path(__file__).with_name("plug_ins")
"""Entry points of kwire nodes that take the place of Java classes of the tests."""
UMASK = 0o077
"""For the key stores that tests write: kwire reads none that every user can read."""
TEST_SECONDS = 180
CLASS_SECONDS = 3600
FIRST_PORT = 12_000
PORTS_OF_A_JVM = 2_000
SIDES = ("kwire", "kafka")
_TAGS = re.compile(r",? ?(?:MetadataVersion|(?:Broker|Controller)(?:SecurityProtocol|ListenerName))=[^,]*(?=,|$)")


def run(selector: str, side: str, shard: int = 0, left_out: Iterable[str] = ()) -> list[dict]:
    """Run a class or a method; return its invocations, each with an `id` that is unique and equal on both sides.

    On kwire, tests in `left_out` (Class.method or Class.*) do not run; each method counts as one invocation.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-tests-") as scratch:
        report = Path(scratch) / "report.jsonl"
        settings = {
            "test.seconds": TEST_SECONDS,
            "java.io.tmpdir": scratch,
            "log4j2.configurationFile": LOGGING,
            "kwire.python": sys.executable,
            "kwire.metadata.version": SUPPORTED[METADATA_VERSION][1],
            "kwire.first.port": FIRST_PORT + PORTS_OF_A_JVM * shard,
        }
        if side == "kwire":
            settings["kwire.left.out"] = ",".join(left_out)
        is_connect = family_of(selector) == "connect"
        heap = CONNECT_HEAP if is_connect else HEAP[side]
        command = ["java", heap, *JVM, *(f"-D{name}={value}" for name, value in settings.items())]
        command += [
            "-cp",
            class_path(side, NOT_FOR_CONNECT if is_connect else ()),
            "kwire.tests.Launch",
            str(report),
            selector,
        ]
        environment = {**os.environ, "PYTHONPATH": str(PLUG_INS)}
        status, output = run_bounded(command, CLASS_SECONDS, environment=environment, umask=UMASK)
        lines = report.read_text().splitlines() if report.exists() else []
    invocations = named([{"class": selector.partition("#")[0], **json.loads(line)} for line in lines])
    if status != 0:
        problem = f"ended with {status}: {output[-2000:]}"
        end = {"id": f"{simple(selector)} (the JVM)", "status": "failed", "errors": [problem], "seconds": 0}
        invocations.append(end)
    return invocations


def simple(selector: str) -> str:
    return selector.partition("#")[0].rpartition(".")[2]


def named(invocations: list[dict]) -> list[dict]:
    """Give each invocation an id of class, method and the parameters that distinguish it, without its number."""
    seen: collections.Counter[str] = collections.Counter()
    for each in invocations:
        label = re.sub(r"^\w+ ?\[\d+\] ", "", each["name"])
        label = _TAGS.sub("", label).strip(", ")
        own = each.get("method") or "(class)"
        label = "" if label in (f"{own}()", own, simple(each.get("class", ""))) else f"[{label}]"
        name = f"{simple(each.get('class', '?'))}.{own}{label}"
        seen[name] += 1
        each["id"] = name if seen[name] == 1 else f"{name}#{seen[name]}"
    return invocations
