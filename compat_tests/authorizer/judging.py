"""Decisions of Apache Kafka's own StandardAuthorizer, which run in one Java process."""

import subprocess
from pathlib import Path

from compat_tests.harness.reference import class_path

PROGRAM = Path(__file__).with_name("Authorizations.java")
JAVA_HOSTS = {"::1": "0:0:0:0:0:0:0:1"}
"""IPv6 addresses as Java writes them: Kafka compares texts, kwire compares addresses."""


def kafkas_answers(cases, directory):
    """Return Kafka's answers for each (super users, allows without entries, entries, questions)."""
    path = directory / "cases"
    path.write_text("".join(f"{_line(*case)}\n" for case in cases))
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path()]
    done = subprocess.run([*command, str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    answers = [[digit == "1" for digit in line] for line in done.stdout.splitlines()]
    assert [len(each) for each in answers] == [len(case[3]) for case in cases]
    return answers


def _line(super_users, allows_without, acls, questions):
    entries = ",".join("|".join(map(_field, _in_java(acl))) for acl in acls)
    asked = ",".join("|".join(map(_field, question)) for question in questions)
    return f"{_hex(';'.join(super_users))} {str(allows_without).lower()} {entries} {asked}"


def _in_java(acl):
    return acl._replace(host=JAVA_HOSTS.get(acl.host, acl.host))


def _field(value):
    return _hex(value) if isinstance(value, str) else str(int(value))


def _hex(text):
    return text.encode().hex()
