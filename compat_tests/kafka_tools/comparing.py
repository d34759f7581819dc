"""One tool on the broker under test and on Apache Kafka side by side, and what counts as the same answer.

Left out of the comparison is what must differ: addresses, directories, ids, times, and where a test asks, rates.
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
    """For what measures: the words are compared, the figures are not."""
    return NUMBER.sub("N", text)


def without_ids(text: str) -> str:
    """Without what a broker makes up, and the times."""
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


def only_lines_with(*names: str) -> Change:
    """For what lists everything: other tests' topics and groups are nobody's business."""
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if any(name in line for name in names))


class Side:
    """One broker with its tools."""

    def __init__(self, broker: BrokerProcess, archive: Path | None) -> None:
        self.name = broker.name
        self.broker = broker
        self.tools = ToolBox(broker.bootstrap, archive)

    def normal(self, text: str) -> str:
        text = text.replace(self.broker.bootstrap, "BOOTSTRAP").replace(str(self.broker.port), "PORT")
        return without_ids(text.replace(str(self.broker.directory), "DIRECTORY"))


class Both:
    """Runs a tool with the same arguments on both brokers; one broker only where the tested one is Kafka itself."""

    def __init__(self, tested: Side, kafka: Side | None) -> None:
        self.tested = tested
        self.sides = [tested] + ([kafka] if kafka else [])

    @property
    def kwire_is_tested(self) -> bool:
        return self.tested.name == "kwire"

    def run_each(self, tool: str, *arguments: str, text: str | None = None) -> list[Ran]:
        """The answers of the tested broker and, where it runs beside it, of Kafka."""
        pipe = {} if text is None else {"stdin": -1}
        processes = [side.tools.start(tool, *arguments, **pipe) for side in self.sides]
        try:
            return [side.tools.finish(process, text) for side, process in zip(self.sides, processes, strict=True)]
        finally:
            for process in processes:
                process.kill()

    def run(self, tool: str, *arguments: str, text: str | None = None, change: Change = str, status: int = 0) -> Ran:
        """The tested broker's answer, after it was found to be Kafka's. `change` is applied to both."""
        answers = self.run_each(tool, *arguments, text=text)
        told = [
            (ran.status, change(side.normal(ran.output)), change(side.normal(ran.errors)))
            for side, ran in zip(self.sides, answers, strict=True)
        ]
        assert told[0] == told[-1], f"{tool} {' '.join(arguments)}\n{told[0]}\n{told[-1]}"
        assert told[0][0] == status, answers[0].said
        return answers[0]

    @contextmanager
    def running(self, scratch: Path, tool: str, *arguments: str, until: str) -> Iterator[list[Path]]:
        """The tool on both brokers, running while the block does; gives their output files."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(side.tools.running(scratch, tool, *arguments, until=until)) for side in self.sides
            ]
