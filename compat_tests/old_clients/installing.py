"""Pinned old clients, each downloaded once into its own directory below .cache/old-clients."""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from compat_tests.harness.install import fetched, install
from compat_tests.harness.outcomes import skip_as_declared
from compat_tests.harness.paths import CACHE

HOME = CACHE / "old-clients"
#: Newest Python version for which the old packages have wheels, or on which they run.
PYTHON_MAX = (3, 11)


def java_client(version: str) -> Path:
    """Return the directory of kafka-clients' jars."""
    return java_jars("kafka-clients", version, name=f"java-{version}")


def java_jars(artifact: str, version: str, name: str = "") -> Path:
    """Return the directory of an artifact of Apache Kafka with all its dependencies."""

    def fetch(directory: Path) -> None:
        install("kafka")
        (directory / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>kwire.compat</groupId><artifactId>client</artifactId><version>1</version><dependencies>"
            f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency></dependencies></project>\n"
        )
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory / 'lib'}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(directory / "pom.xml"), *goal], check=True)

    return fetched(HOME / (name or f"{artifact}-{version}"), fetch) / "lib"


def java_program(source: Path, jars: Path) -> Path:
    """Return the directory of a program's classes, compiled against one client by the compiler of Debian's runtime."""
    classes = jars.parent / f"classes-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=jars.parent) as scratch:
            path = ":".join(map(str, jars.glob("*.jar")))
            compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-cp", path]
            subprocess.run([*compiler, "-d", f"{scratch}/classes", str(source)], check=True)
            with contextlib.suppress(OSError):  # another run was faster
                Path(scratch, "classes").rename(classes)
    return classes


def python_client(requirement: str) -> Path:
    """Return the interpreter of a virtual environment that contains only this package and its dependencies."""

    def fetch(directory: Path) -> None:
        python = old_enough_python()
        subprocess.run([python, "-m", "venv", str(directory / "venv")], check=True)
        command = [
            str(directory / "venv" / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        subprocess.run([*command, *requirement.split()], check=True)

    return fetched(HOME / requirement.replace("==", "-").split()[0], fetch) / "venv" / "bin" / "python"


def old_enough_python() -> str:
    """Return this Python, or an older one beside it that the pinned packages support."""
    if sys.version_info[:2] <= PYTHON_MAX:
        return sys.executable
    found = shutil.which("python{}.{}".format(*PYTHON_MAX))
    if found is None:
        skip_as_declared("the pinned packages need Python 3.11 or older")
    return found
