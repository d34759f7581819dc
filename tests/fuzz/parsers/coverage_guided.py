"""Coverage-guided fuzzing with atheris: each target runs in a child of one process whose modules are instrumented.

Import this module before any module of kwire, so that atheris instruments them: `start` does it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.fuzz.parsers.target import Target

INSTRUMENTED: Final = ["kwire", "jwt"]
INPUT_BYTES_MAX: Final = 4096
SECONDS_FOR_INPUT: Final = 10
RSS_MIB_MAX: Final = 2048
FAULT_STATUS: Final = 77
_RUNS: Final = re.compile(rb"^#(\d+)\s", re.MULTILINE)


@dataclass(slots=True)
class Found:
    """Result of a run: the inputs that cover something new, and those that break the contract."""

    runs: int = 0
    inputs: list[bytes] = field(default_factory=list)
    faults: list[bytes] = field(default_factory=list)
    log: str = ""
    seconds: float = 0.0


def start() -> None:
    """Import all targets with instrumented modules, among them the codecs that are compiled later."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        import tests.fuzz.parsers.catalogue  # noqa: F401 the import is the purpose
        from kwire.protocol.source import Source

    compile_source = Source.compile

    def compile_instrumented(source: Source) -> Any:
        return atheris.instrument_func(compile_source(source))

    Source.compile = compile_instrumented  # type: ignore[assignment, method-assign]


def fuzz(target: Target, inputs: Iterable[bytes], *, seconds: int, seed: int) -> Found:
    """Fuzz one target in a child process, from these inputs on; a fault ends the run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kwire-parsers-") as name:
        corpus, faults, log = Path(name, "corpus"), Path(name, "faults"), Path(name, "log")
        corpus.mkdir()
        faults.mkdir()
        for number, data in enumerate(inputs):
            (corpus / f"seed-{number}").write_bytes(data)
        child = os.fork()
        if child == 0:
            _run_child(target, corpus, faults, log, seconds=seconds, seed=seed)
        _, status = os.waitpid(child, 0)
        said = log.read_bytes()
        runs = _RUNS.findall(said)
        found = Found(
            runs=int(runs[-1]) if runs else 0,
            inputs=[path.read_bytes() for path in corpus.iterdir()],
            faults=[path.read_bytes() for path in faults.iterdir()],
            log=said.decode(errors="replace"),
            seconds=time.monotonic() - began,
        )
    assert found.faults or status == 0, f"{target.name}: the fuzzer ended with status {status}: {found.log[-2000:]}"
    return found


def _run_child(target: Target, corpus: Path, faults: Path, log: Path, *, seconds: int, seed: int) -> None:
    """Run libFuzzer, which ends the process."""
    import atheris

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)

    def check(data: bytes) -> None:
        try:
            target.check(data)
        except BaseException:  # noqa: BLE001 any exception is a fault
            traceback.print_exc()
            (faults / "fault").write_bytes(data)
            os._exit(FAULT_STATUS)

    for path in sorted(corpus.iterdir()):
        check(path.read_bytes())  # compiles the codecs before the counters are read
    options = {
        "max_total_time": seconds,
        "seed": seed,
        "max_len": INPUT_BYTES_MAX,
        "timeout": SECONDS_FOR_INPUT,
        "rss_limit_mb": RSS_MIB_MAX,
        "artifact_prefix": f"{faults}/",
        "print_final_stats": 1,
    }
    atheris.Setup([sys.argv[0], str(corpus), *(f"-{key}={value}" for key, value in options.items())], check)
    atheris.Fuzz()
