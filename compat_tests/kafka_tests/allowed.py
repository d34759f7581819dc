"""Allow-list: tests that fail on kwire and pass on Kafka, each with its state and reason. The list only shrinks."""

from pathlib import Path

CAPABILITY = "needs a capability"
PATH = Path(__file__).with_name("allowed.txt")
HEAD = """\
# What of Apache Kafka's tests fails on kwire and passes on Kafka: id | state | reason. This list only shrinks.
# An id is an invocation, a method without its brackets (all its invocations), or Class.* (all of a class).
"""


def read() -> dict[str, tuple[str, str]]:
    """Return state and reason by id."""
    entries = {}
    for line in PATH.read_text().splitlines():
        if line and not line.startswith("#"):
            name, state, reason = (each.strip() for each in line.split(" | ", 2))
            entries[name] = (state, reason)
    return entries


def names_of(invocation_id: str) -> list[str]:
    """Return the ids of the entries that can cover an invocation."""
    return [
        invocation_id,
        invocation_id.split("[", maxsplit=1)[0].split("#", maxsplit=1)[0],
        invocation_id.split(".", maxsplit=1)[0] + ".*",
    ]


def needing_capabilities(entries: dict[str, tuple[str, str]]) -> list[str]:
    """Return the methods and classes of which every invocation needs a capability that kwire does not serve."""
    return [name for name, (state, _) in entries.items() if state == CAPABILITY and "[" not in name]


def covering(invocation_id: str, entries: dict[str, tuple[str, str]]) -> str | None:
    return next((name for name in names_of(invocation_id) if name in entries), None)


def write(entries: dict[str, tuple[str, str]]) -> None:
    lines = [f"{name} | {state} | {reason}\n" for name, (state, reason) in sorted(entries.items())]
    PATH.write_text(HEAD + "".join(lines))
