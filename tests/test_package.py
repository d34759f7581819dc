"""The wheel, built from the sdist and installed into an empty environment, holds the package and serves a client."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import READY, overrides
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, values_in

ROOT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares with what git knows"),
]


def run(*command: object, cwd: Path | None = None) -> str:
    ended = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def git_files() -> list[str]:
    listed = run("git", "ls-files", "-z", "kwire", cwd=ROOT).split("\0")
    return sorted(name for name in listed if name and (ROOT / name).is_file() and not name.endswith(".md"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the files in git, as a release does."""
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        original, copy = ROOT / name, source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if original.is_symlink():
            copy.symlink_to(original.readlink())
        elif original.is_file():
            copy.write_bytes(original.read_bytes())
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, source)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", path)
    run(path / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    yield path


def test_the_sdist_has_the_package_and_no_part_of_the_tests(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if name.count("/") > 1}
    assert folders == {"kwire", "kwire.egg-info"}


def test_the_wheel_has_what_git_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
        metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert [name for name in packed if not name.endswith(".md")] == git_files()
    assert "Name: kwire\n" in text
    assert "License-Expression: Apache-2.0\n" in text


def test_the_installed_command_serves_a_client(environment: Path, tmp_path: Path) -> None:
    given = overrides(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path / "data"))
    process = subprocess.Popen(
        [environment / "bin" / "kwire", "server", *given], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY)
        with RawClient(line.removeprefix(READY).partition(",")[0]) as client:
            topic, _ = create_topic(client)
            assert produce(client, topic, batch(b"v")).error_code == 0
            assert values_in(fetch(client, topic).records) == [b"v"]
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_installed_package_is_typed_and_embeds_a_broker(environment: Path, tmp_path: Path) -> None:
    program = (
        "import kwire, pathlib, sys\n"
        "assert pathlib.Path(kwire.__file__).is_relative_to(sys.prefix), kwire.__file__\n"
        "assert pathlib.Path(kwire.__file__).with_name('py.typed').exists()\n"
        "with kwire.Broker() as broker:\n    print(broker.bootstrap_server)\n"
    )
    assert ":" in run(environment / "bin" / "python", "-c", program, cwd=tmp_path)


def test_the_installed_command_prints_its_version(environment: Path) -> None:
    assert "0.1.0" in run(environment / "bin" / "kwire", "--version")
