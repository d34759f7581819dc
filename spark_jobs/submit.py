"""Start the pipeline by spark-submit, with the packages and the Python files that its workers need.

    python -m spark_jobs.submit --master spark://host:7077 --format delta --conf spark.executor.memory=2g \\
        --conf spark.pyspark.python=/opt/spark/bin/python -- run --config pipeline.toml

What follows -- are the arguments of `python -m spark_jobs.pipeline`. The workers need the packages of
`pip install 'kwire[spark]'`, in the Python that spark.pyspark.python names; kwire's own files and the pipeline are sent
to them. The driver runs here, in the Python of this command. SIGTERM and Ctrl-C stop it between two batches.
--print shows the command only.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pyspark

import kwire
from spark_jobs.versions import packages

SOURCES = Path(__file__).resolve().parent
ENTRY = SOURCES / "pipeline" / "__main__.py"
WITHOUT_SIGNALS = ("sh", "-c", 'trap "" INT TERM; exec "$@"', "spark-submit")
"""Start a command that ignores the signals, unless it handles them itself: the JVM would end and take the driver's
connection to it away, but the driver handles them.
"""


def archive(path: Path) -> None:
    """Write the Python files of kwire and of the jobs, without the tests, to a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for root in (Path(kwire.__file__).resolve().parent, SOURCES):
            sources = [each for each in root.rglob("*.py") if "tests" not in each.relative_to(root).parts]
            folders = {folder for each in sources for folder in each.parents if folder.is_relative_to(root)}
            # Python imports a folder without __init__.py from a zip file only if it is an entry of it.
            for each in sorted([*folders, *sources]):
                file.write(each, each.relative_to(root.parent))


def command(python_files: Path, chosen: argparse.Namespace) -> list[str]:
    """Return the command line of spark-submit."""
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    given = [submit, "--packages", ",".join(packages(chosen.format)), "--py-files", str(python_files)]
    if chosen.master:
        given += ["--master", chosen.master]
    for each in chosen.conf:
        given += ["--conf", each]
    return [*given, str(ENTRY), *chosen.arguments]


def run(full: Sequence[str]) -> int:
    """Run spark-submit, pass signals on to its driver, and return its exit status."""
    environment = {"PYSPARK_DRIVER_PYTHON": sys.executable} | os.environ
    process: subprocess.Popen[bytes] | None = None
    is_stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_stopping = True
        if process is not None:
            os.killpg(process.pid, signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    process = subprocess.Popen([*WITHOUT_SIGNALS, *full], env=environment, start_new_session=True)
    if is_stopping:
        os.killpg(process.pid, signal.SIGTERM)
    return process.wait()


def main(given: Sequence[str] | None = None) -> int:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="submit", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--master", metavar="URL", help="default: that of Spark's configuration")
    parser.add_argument("--format", default="delta", help="format of the tables (default: %(default)s)")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="where the Python files are written as a zip")
    parser.add_argument("--print", action="store_true", help="show the command and end; needs --archive")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="of the pipeline")
    chosen = parser.parse_args(given)
    if chosen.print and chosen.archive is None:
        parser.error("--print needs --archive, because the command names that file")
    with tempfile.TemporaryDirectory(prefix="kwire-submit-") as scratch:
        path = chosen.archive or Path(scratch) / "kwire-jobs.zip"
        archive(path)
        full = command(path, chosen)
        if not chosen.print:
            return run(full)
    print(shlex.join(full))
    return 0


if __name__ == "__main__":
    sys.exit(main())
