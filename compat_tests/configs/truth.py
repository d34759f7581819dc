"""Configuration data from Apache Kafka's own classes, through Truth.java."""

import json
import subprocess
from functools import cache
from pathlib import Path

from compat_tests.harness.reference import class_path

SOURCE = Path(__file__).with_name("Truth.java")
QUIET = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def _run(*arguments, text=""):
    command = ["java", *QUIET, "-cp", class_path(), str(SOURCE), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def all_keys():
    """Return every key: kind, name, type, has_default, default, validator, internal, update."""
    return json.loads(_run("keys"))


def keys(kind):
    return {key["name"]: key for key in all_keys() if key["kind"] == kind}


def at_start(base, changes):
    """Return Kafka's errors at start for a settings file, each time with one (name, value) changed."""
    lines = _run("start", str(base), text="".join(f"{name}={value}\n" for name, value in changes)).splitlines()
    said = [json.loads(line) for line in lines if line.startswith('"')]
    assert len(said) == len(changes)
    return said
