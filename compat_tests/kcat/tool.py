"""Runner of the program kcat: its arguments, and the parser of its output."""

import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually

SECONDS = 30
#: Separator of fields whose length kcat cannot print; no test record contains it.
END = b"\x1e"
REBALANCE = re.compile(r"rebalanced.*?(assigned|revoked|incremental assignment|incremental revoke)(.*)")
FORMAT = r"%p %o %T %K %S \n%k%s%h\x1e"


@dataclass(slots=True, kw_only=True, frozen=True)
class Received:
    partition: int
    offset: int
    record: Record


def kcat_command(bootstrap, *arguments):
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed: compat_tests/install.sh kcat")
    return ["kcat", "-b", bootstrap, "-X", "check.crcs=true", *arguments]


def kcat(bootstrap, *arguments, stdin=b"", check=True):
    command = kcat_command(bootstrap, *arguments)
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=SECONDS, check=False)
    if check:
        assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done


def produce(bootstrap, topic, lines, *arguments):
    """Send (key, value) pairs; None means null."""
    joined = END.join(value if key is None else key + b"\x1f" + value for key, value in lines)
    flags = ("-P", "-t", topic, "-K", r"\x1f", "-D", r"\x1e", *arguments)
    return kcat(bootstrap, *flags, stdin=joined)


def consume(bootstrap, topic, *arguments, offset="beginning", partition=0):
    """Read one partition from an offset to its end."""
    flags = ("-C", "-q", "-e", "-t", topic, "-p", str(partition), "-o", str(offset), "-f", FORMAT, *arguments)
    return parse(kcat(bootstrap, *flags).stdout)


def parse(output):
    received = []
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        partition, offset, timestamp, key_size, value_size = map(int, output[position:end].split())
        key, position = take(output, end + 1, key_size)
        value, position = take(output, position, value_size)
        end = output.index(END, position)
        record = Record(value=value, key=key, headers=parse_headers(output[position:end]), timestamp_ms=timestamp)
        received.append(Received(partition=partition, offset=offset, record=record))
        position = end + 1
    return received


def take(output, position, size):
    return (None, position) if size < 0 else (output[position : position + size], position + size)


def parse_headers(text):
    if not text:
        return ()
    pairs = [each.split(b"=", 1) for each in text.split(b",")]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, value in pairs)


class Running:
    """kcat process that runs until it is stopped; its output is collected in files."""

    def __init__(self, command, directory):
        self.stdout, self.stderr = directory / "stdout", directory / "stderr"
        with self.stdout.open("wb") as output, self.stderr.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    def received(self):
        """Return the complete records so far; the last one may be written in part only."""
        output = self.stdout.read_bytes()
        return parse(output[: output.rfind(END) + 1])

    def assigned(self):
        """Return the assigned partitions; None before the first assignment and after a revocation."""
        owned = None
        for change, partitions in REBALANCE.findall(self.stderr.read_text()):
            numbers = frozenset(int(number) for number in re.findall(r"\[(\d+)\]", partitions))
            if change == "assigned":
                owned = numbers
            elif change == "revoked":
                owned = None
            elif change == "incremental assignment":
                owned = (owned or frozenset()) | numbers
            else:
                owned = (owned or frozenset()) - numbers
        return owned

    def wait_for(self, count, seconds=30):
        return eventually(lambda: len(got := self.received()) >= count and got, f"{count} records in kcat", seconds)


@contextmanager
def running(directory, command):
    directory.mkdir()
    started = Running(command, directory)
    try:
        yield started
    finally:
        started.process.stdin.close()
        started.process.terminate()
        started.process.wait(SECONDS)
