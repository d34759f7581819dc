"""Runs of pytest and of other commands, each in its own process group and with a time limit."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat_tests.harness.outcomes import Outcomes, read_report
from compat_tests.harness.paths import ROOT


def run_suite(
    configuration: Path, arguments: Sequence[str], seconds: float, *, environment: Mapping[str, str] | None = None
) -> tuple[Outcomes, str]:
    """Run pytest with this configuration file; return the outcomes and pytest's output."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-c", str(configuration), *arguments]
        command += ["--junitxml", str(report), "-q", "--tb=short"]
        status, output = run_bounded(command, seconds, environment=environment)
        outcomes = Outcomes(tests=read_report(report) if report.exists() else {})
    if not outcomes.tests:
        outcomes.problem = f"no test ran, pytest ended with {status}:\n{output[-3000:]}"
    return outcomes, output


def run_bounded(
    command: Sequence[str], seconds: float, *, environment: Mapping[str, str] | None = None, umask: int = -1
) -> tuple[int | str, str]:
    """Run a command; return its exit status, or a text if it timed out, and its output.

    After `seconds`, its whole process group is killed: a hanging suite together with its brokers. `umask` is that of
    the command; -1 for this process's.
    """
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        umask=umask,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"a timeout of {seconds} s", process.communicate()[0]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, output
