"""Target assignments of Apache Kafka's own assignors, which run in one Java process."""

import subprocess
from pathlib import Path

from compat_tests.harness.reference import class_path

PROGRAM = Path(__file__).with_name("Assignors.java")


def kafkas_assignments(rounds, directory):
    """Return Kafka's result of each round: the partitions of each member, or its error."""
    path = directory / "groups"
    topics = [_topics(it.group) for it in rounds]
    with path.open("w") as lines:
        for it, numbers in zip(rounds, topics, strict=True):
            lines.write(f"{it.name} {_line(it.group, numbers)}\n")
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path()]
    done = subprocess.run([*command, str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    return [_answer(*each) for each in zip(done.stdout.splitlines(), rounds, topics, strict=True)]


def _topics(group):
    """Return the number of each topic: those that exist, then those in old targets only."""
    found = dict.fromkeys(group.partition_counts)
    for member in group.members.values():
        found.update(dict.fromkeys(member.target))
    return {topic_id: number for number, topic_id in enumerate(found)}


def _line(group, numbers):
    topics = [
        f"{topic_id.hex}:{group.partition_counts.get(topic_id, -1)}:{group.topic_names.get(topic_id, '-')}"
        for topic_id in numbers
    ]
    members = [_member(member_id, member, numbers) for member_id, member in group.members.items()]
    kind = "H" if group.is_homogeneous else "X"
    assignable = "all" if group.assignable is None else _partitions(group.assignable, numbers)
    return f"{kind} {','.join(topics) or '-'} {assignable} {';'.join(members) or '-'}"


def _member(member_id, member, numbers):
    instance_id = "-" if member.instance_id is None else member.instance_id.encode().hex()
    subscribed = ".".join(str(numbers[topic_id]) for topic_id in member.topic_ids)
    return f"{member_id.encode().hex()}|{instance_id}|{subscribed or '-'}|{_partitions(member.target, numbers)}"


def _partitions(partitions, numbers):
    texts = [f"{numbers[topic_id]}:{'.'.join(map(str, sorted(numbered)))}" for topic_id, numbered in partitions.items()]
    return ",".join(texts) or "-"


def _answer(line, round_, numbers):
    if line.startswith("failed: "):
        return line
    topic_ids = list(numbers)
    members = zip(round_.group.members, line.split(";"), strict=True) if round_.group.members else ()
    return {member_id: _parsed(text, topic_ids) for member_id, text in members}


def _parsed(text, topic_ids):
    if text == "-":
        return {}
    topics = [topic.split(":") for topic in text.split(",")]
    return {topic_ids[int(number)]: frozenset(map(int, numbers.split("."))) for number, numbers in topics}
