"""Tests of franz-go's package kgo as a program, compiled once below .cache/franz-go."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from compat_tests.harness.install import fetched, install
from compat_tests.harness.paths import CACHE

VERSION = "1.22.3"
MODULE = "github.com/twmb/franz-go"
PACKAGE = f"{MODULE}/pkg/kgo"
#: Go that the module requires; a newer one serves as well.
GO = "1.26.0"
#: First Go that downloads the newer one that a module requires.
SWITCHING_GO = (1, 21)
HOME = CACHE / "franz-go"
MODULES = HOME / "modules"
SOURCES = MODULES / f"{MODULE}@v{VERSION}" / "pkg" / "kgo"
"""Folder of the tests, from which they run: one of them reads a source file."""


def programs() -> Path:
    """Return the directory of the test program and of test2json; on first use, fetch and compile both."""
    return fetched(HOME / VERSION, _compile)


def _compile(directory: Path) -> None:
    install("go")
    requirement = f"require {MODULE} v{VERSION}"
    (directory / "go.mod").write_text(f"module kwire.compat/kgo\n\ngo {GO}\n\n{requirement}\n")
    for arguments in (
        ["test", "-c", "-mod=mod", "-o", "kgo.test", PACKAGE],
        ["build", "-o", "test2json", "cmd/test2json"],
    ):
        subprocess.run([go(), *arguments], check=True, cwd=directory, env=environment())


def environment() -> Mapping[str, str]:
    """Return the environment of Go: downloads and compiled packages are below .cache, and are writable."""
    own = {
        "GOPATH": str(HOME / "go"),
        "GOMODCACHE": str(MODULES),
        "GOCACHE": str(HOME / "compiled"),
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "auto",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
    return os.environ | own


def go() -> str:
    """Return the Go command. If the installed Go cannot switch to the required one, download that."""
    printed = subprocess.run(["go", "version"], capture_output=True, text=True, check=True, env=environment()).stdout
    found = re.search(r"go(\d+)\.(\d+)", printed)
    if found is None or tuple(map(int, found.groups())) >= SWITCHING_GO:
        return "go"
    return str(fetched(HOME / f"go-{GO}", _fetch_toolchain) / "go" / "bin" / "go")


def _fetch_toolchain(directory: Path) -> None:
    """Download Go from the module proxy, and make its programs executable, which a module's archive cannot store."""
    platform = subprocess.run(["go", "env", "GOOS", "GOARCH"], capture_output=True, text=True, check=True).stdout
    version = f"v0.0.1-go{GO}.{'-'.join(platform.split())}"
    command = ["go", "mod", "download", f"golang.org/toolchain@{version}"]
    subprocess.run(command, check=True, cwd=directory, env=environment())
    unpacked = MODULES / "golang.org" / f"toolchain@{version}"
    for folder in ("bin", "pkg/tool"):
        for program in (unpacked / folder).rglob("*"):
            program.chmod(0o755)
    (directory / "go").symlink_to(unpacked)
