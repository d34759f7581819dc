"""Start the pipeline by spark-submit, with the packages and the Python files that its workers need.

    python -m spark_jobs.submit --master spark://host:7077 --format delta --conf spark.executor.memory=2g \\
        -- run --config pipeline.toml

What follows -- are the arguments of `python -m spark_jobs.pipeline`. The workers need the packages of
`pip install 'kwire[spark]'`; kwire's own files and the pipeline are sent to them. --print shows the command only.
"""

import argparse
import os
import shlex
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

import kwire
from spark_jobs.versions import packages

SOURCES = Path(__file__).resolve().parent
ENTRY = SOURCES / "pipeline" / "__main__.py"


def archive(path: Path) -> None:
    """Write the Python files of kwire and of the jobs, without the tests, to a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for root in (Path(kwire.__file__).resolve().parent, SOURCES):
            for source in sorted(root.rglob("*.py")):
                if "tests" not in source.relative_to(root).parts:
                    file.write(source, source.relative_to(root.parent))


def command(python_files: Path, chosen: argparse.Namespace) -> list[str]:
    """Return the command line of spark-submit."""
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    given = [submit, "--packages", ",".join(packages(chosen.format)), "--py-files", str(python_files)]
    if chosen.master:
        given += ["--master", chosen.master]
    for each in chosen.conf:
        given += ["--conf", each]
    return [*given, str(ENTRY), *chosen.arguments]


def main(given: Sequence[str] | None = None) -> int:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="submit", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--master", metavar="URL", help="default: that of Spark's configuration")
    parser.add_argument("--format", default="delta", help="format of the tables (default: %(default)s)")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="where the Python files are written as a zip")
    parser.add_argument("--print", action="store_true", help="show the command and end")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="of the pipeline")
    chosen = parser.parse_args(given)
    path = chosen.archive or Path(tempfile.mkdtemp(prefix="kwire-submit-")) / "kwire-jobs.zip"
    archive(path)
    full = command(path, chosen)
    if not chosen.print:
        os.execv(full[0], full)  # signals go to spark-submit
    print(shlex.join(full))
    return 0


if __name__ == "__main__":
    sys.exit(main())
