"""Comparison of a tool's output on the broker under test and on Apache Kafka.

The comparison omits what must differ: addresses, directories, ids, times and, if a test requests it, rates.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat_tests.harness.process import BrokerProcess
from compat_tests.kafka_tools.tools import Ran, ToolBox

RULES = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z0-9])[\w-]{22}(?![\w-])"), "ID"),
    (re.compile(r"\b1[7-9]\d{11}\b"), "MILLIS"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.:,]\d+"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
)
NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")
Change = Callable[[str], str]


def without_numbers(text: str) -> str:
    """Replace all numbers, so that only the words of a measurement are compared."""
    return NUMBER.sub("N", text)


def without_ids(text: str) -> str:
    """Replace ids and times that a broker generates."""
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


def only_lines_with(*names: str) -> Change:
    """Return a filter that keeps lines with these names, because lists contain topics and groups of other tests."""
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if any(name in line for name in names))


class Side:
    """Broker with its tools."""

    def __init__(self, broker: BrokerProcess, archive: Path | None) -> None:
        self.name = broker.name
        self.broker = broker
        self.tools = ToolBox(broker.bootstrap, archive)

    def normal(self, text: str) -> str:
        text = text.replace(self.broker.bootstrap, "BOOTSTRAP").replace(str(self.broker.port), "PORT")
        return without_ids(text.replace(str(self.broker.directory), "DIRECTORY"))


class Both:
    """Both brokers: a tool runs with the same arguments on each. If Kafka itself is tested, there is one broker."""

    def __init__(self, tested: Side, kafka: Side | None) -> None:
        self.tested = tested
        self.sides = [tested] + ([kafka] if kafka else [])

    @property
    def kwire_is_tested(self) -> bool:
        return self.tested.name == "kwire"

    def run_each(self, tool: str, *arguments: str, text: str | None = None) -> list[Ran]:
        """Run a tool on each broker and return the outputs: the tested broker's, then Kafka's if it runs beside it."""
        pipe = {} if text is None else {"stdin": -1}
        processes = [side.tools.start(tool, *arguments, **pipe) for side in self.sides]
        try:
            return [side.tools.finish(process, text) for side, process in zip(self.sides, processes, strict=True)]
        finally:
            for process in processes:
                process.kill()

    def run(self, tool: str, *arguments: str, text: str | None = None, change: Change = str, status: int = 0) -> Ran:
        """Run a tool on each broker, check that the outputs agree after `change`, and return the tested broker's."""
        answers = self.run_each(tool, *arguments, text=text)
        reported = [
            (ran.status, change(side.normal(ran.output)), change(side.normal(ran.errors)))
            for side, ran in zip(self.sides, answers, strict=True)
        ]
        assert reported[0] == reported[-1], f"{tool} {' '.join(arguments)}\n{reported[0]}\n{reported[-1]}"
        assert reported[0][0] == status, answers[0].said
        return answers[0]

    @contextmanager
    def running(self, scratch: Path, tool: str, *arguments: str, until: str) -> Iterator[list[Path]]:
        """Run a tool on both brokers during the block; yield their output files."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(side.tools.running(scratch, tool, *arguments, until=until)) for side in self.sides
            ]
