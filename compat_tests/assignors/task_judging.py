"""Assignments of tasks by Apache Kafka's own assignor, which runs in one Java process."""

import subprocess
from pathlib import Path

from compat_tests.harness.reference import class_path

PROGRAM = Path(__file__).with_name("TaskAssignors.java")


def kafkas_tasks(groups, directory):
    """Return Kafka's result for each group: (active, standby) tasks of each member, or its error."""
    path = directory / "streams-groups"
    with path.open("w") as lines:
        lines.writelines(f"{_line(group)}\n" for group in groups)
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path()]
    done = subprocess.run([*command, str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    return [_answer(line, group) for line, group in zip(done.stdout.splitlines(), groups, strict=True)]


def _line(group):
    subtopologies = [
        f"{_hexadecimal(each.subtopology)}:{each.task_count}:{int(each.is_stateful)}" for each in group.subtopologies
    ]
    members = [
        f"{_hexadecimal(member_id)}|{_hexadecimal(member.process_id)}|{_tasks(member.target.active)}|"
        f"{_tasks(member.target.standby)}"
        for member_id, member in group.members.items()
    ]
    return f"{group.standby_replicas} {','.join(subtopologies) or '-'} {';'.join(members) or '-'}"


def _hexadecimal(text):
    return text.encode().hex()


def _tasks(tasks):
    texts = [f"{_hexadecimal(each)}:{'.'.join(map(str, sorted(numbers)))}" for each, numbers in tasks.items()]
    return ",".join(texts) or "-"


def _answer(line, group):
    if line.startswith("failed: "):
        return line
    members = zip(group.members, line.split(";"), strict=True)
    return {member_id: tuple(map(_parsed, text.split("|"))) for member_id, text in members}


def _parsed(text):
    if text == "-":
        return {}
    tasks = [each.split(":") for each in text.split(",")]
    return {bytes.fromhex(name).decode(): frozenset(map(int, numbers.split("."))) for name, numbers in tasks}
