"""The command `kwire server` as a process: it starts, stops, and rejects bad input with a message of one line."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kwire.__main__ import main as started_by_name
from kwire.cli import main
from tests.support.processes import command, overrides, run_to_end, server
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, fetch_request, produce, values_in
from tests.support.waiting import eventually

FREE = "PLAINTEXT://127.0.0.1:0"
CONTROLLER = "CONTROLLER://127.0.0.1:0"


@pytest.fixture
def heeded_hangups() -> Iterator[None]:
    """Let child processes react to SIGHUP, even if the test suite runs under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("heeded_hangups")
def test_a_signal_stops_the_server_cleanly(tmp_path: Path, number: int) -> None:
    data = tmp_path / "data"
    with server(data) as running, RawClient(running.bootstrap_server) as client:
        assert f"node 1, data in {data}" in running.ready_line
        topic, _ = create_topic(client)
        produce(client, topic, batch(b"kept"))
        client.send_bytes(client.frame(fetch_request(topic, 1, max_wait_ms=600_000), 12))
        assert running.signal_and_wait(number) == 0
        assert running.rest().splitlines() == ["kwire: stopped"]
    assert (data / ".kafka_cleanshutdown").is_file()
    with server(data) as running, RawClient(running.bootstrap_server) as client:
        assert values_in(fetch(client, topic).records) == [b"kept"]


def test_an_interrupt_while_modules_are_loaded_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"sys.path.insert(0, {str(tmp_path)!r}); from kwire.__main__ import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_garbage_is_collected_once_modules_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("kwire.cli.main", lambda prog_name: seen.append(gc.isenabled()))
    started_by_name()
    assert seen == [True]


def test_a_foreign_sigint_handler_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(sys, "argv", ["kwire", "--version"])
    with pytest.raises(SystemExit) as ended:
        started_by_name()
    assert not ended.value.code
    assert "version" in capsys.readouterr().out


def test_a_properties_file_is_read_and_overrides_win(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("# ours\nnode.id=3\nlog.dirs=/nowhere/at/all\nlisteners = PLAINTEXT://127.0.0.1:0\n")
    with server(tmp_path / "data", str(properties)) as running:
        assert "node 3" in running.ready_line
    assert not Path("/nowhere").exists()


def test_an_unknown_setting_is_warned_of_once(tmp_path: Path) -> None:
    with server(tmp_path / "data", no_such_setting="1", num_io_threads="8") as running:
        running.signal_and_wait(signal.SIGTERM)
        said = running.said_before + running.rest()
    assert said.count("no.such.setting") == 1
    assert "num.io.threads" not in said


def rejected(tmp_path: Path, *arguments: str, naming: str) -> str:
    """Check that the server prints one line on standard error with the culprit, exits with status 1, and creates no
    files.
    """
    before = sorted(tmp_path.rglob("*"))
    with contextlib.chdir(tmp_path):
        ended = CliRunner().invoke(main, ["server", *arguments])
    assert ended.exit_code == 1, ended
    assert ended.stdout == ""
    line = only_line(ended.stderr)
    assert naming in line
    assert sorted(tmp_path.rglob("*")) == before
    return line


def only_line(said: str) -> str:
    (line,) = said.splitlines()
    assert line.startswith("kwire: ")
    return line


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("num.partitions", "many"),
        ("num.partitions", "0"),
        ("listeners", "127.0.0.1:9092"),
        ("listeners", "PLAINTEXT://127.0.0.1:99999"),
        ("listener.security.protocol.map", "OTHER:PLAINTEXT"),
        ("listeners", "CONTROLLER://127.0.0.1:0"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1"),
        ("listeners", "PLAINTEXT://0.0.0.0:0"),
        ("advertised.listeners", "OTHER://host:1"),
        ("process.roles", "broker"),
        ("controller.quorum.voters", "1@a"),
        ("log.cleanup.policy", "burn"),
        ("queued.max.request.bytes", "5"),
        ("auto.create.topics.enable", "perhaps"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, setting: str, value: str) -> None:
    rejected(tmp_path, "--override", f"listeners={FREE}", "--override", f"{setting}={value}", naming=setting)


def test_a_node_that_waits_for_its_quorum_can_be_stopped(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/data\nlisteners={FREE},{CONTROLLER}\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2\n"
    )
    formatted = CliRunner().invoke(main, ["format", "-t", "a-cluster-of-two", "-c", str(settings)])
    assert formatted.exit_code == 0, formatted.output
    process = subprocess.Popen(
        command(str(settings), "--verbose"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        assert any("asks whether it would be elected" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert process.stdout.read().splitlines()[-1] == "kwire: stopped before it served"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_controller_does_not_format_its_directory_itself(tmp_path: Path) -> None:
    given = {
        "listeners": "CONTROLLER://127.0.0.1:0",
        "process_roles": "controller",
        "controller_quorum_voters": "1@127.0.0.1:1",
    }
    assert "kwire format" in rejected(tmp_path, *overrides(**given), naming="meta.properties")


def test_an_override_without_a_value_is_explained(tmp_path: Path) -> None:
    assert "key=value" in rejected(tmp_path, "--override", "num.partitions", naming="num.partitions")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ended = run_to_end("missing.properties", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "missing.properties: No such file" in only_line(ended.stderr)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.properties").write_bytes(b"\xff\xfe\x00")
    rejected(tmp_path, "binary.properties", naming="binary.properties")


def test_a_directory_as_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    rejected(tmp_path, "folder", naming="folder")


def test_a_taken_port_is_named_and_no_directory_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = rejected(tmp_path, *overrides(listeners=f"PLAINTEXT://127.0.0.1:{port}"), naming="listeners")
    assert str(port) in line
    assert "data" not in [path.name for path in tmp_path.iterdir()]


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    rejected(tmp_path, *overrides(listeners="PLAINTEXT://203.0.113.1:0"), naming="listeners")


def test_a_file_in_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("file", "file/below"):
        rejected(tmp_path, *overrides(listeners=FREE, log_dirs=path), naming="log.dirs")


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    rejected(tmp_path, *overrides(listeners=FREE, log_dirs="/proc/kwire"), naming="log.dirs")


def test_a_foreign_directory_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"x")
    rejected(tmp_path, *overrides(listeners=FREE, log_dirs="photos"), naming="log.dirs")


def test_a_directory_of_another_node_is_named(tmp_path: Path) -> None:
    with server(tmp_path / "data") as running:
        running.signal_and_wait(signal.SIGTERM)
    line = rejected(tmp_path, *overrides(listeners=FREE, log_dirs="data", node_id="2"), naming="node.id")
    assert "node 1" in line


def test_a_directory_in_use_is_named(tmp_path: Path) -> None:
    with server(tmp_path / "data"):
        ended = run_to_end(*overrides(listeners=FREE, log_dirs=str(tmp_path / "data")))
    assert ended.returncode == 1
    assert "in use by another broker" in only_line(ended.stderr)


def test_a_blank_directory_of_a_configured_quorum_is_named(tmp_path: Path) -> None:
    listeners = f"{FREE},{CONTROLLER}"
    given = overrides(listeners=listeners, log_dirs="unmounted", controller_quorum_bootstrap_servers="localhost:1")
    rejected(tmp_path, *given, naming="log.dirs")


@contextlib.contextmanager
def silent_server(data: Path, prefix: Sequence[str] = (), stdout: Any = subprocess.DEVNULL) -> Iterator[int]:
    """Start a server with its output discarded, yield its process id when it listens, then check a clean stop."""
    begin = [*prefix, *command(*overrides(log_dirs=str(data), listeners=FREE))]
    process = subprocess.Popen(begin, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: listens(process.pid), "an open listener")
        yield process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert (data / ".kafka_cleanshutdown").is_file()


def listens(process_id: int) -> bool:
    process = Path(f"/proc/{process_id}")
    with contextlib.suppress(OSError):  # a descriptor may be closed while this reads
        sockets = {each.readlink().name for each in (process / "fd").iterdir()}
        lines = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
        return any(line[3] == "0A" and f"socket:[{line[9]}]" in sockets for line in lines)
    return False


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_server_whose_standard_streams_are_closed_stops_cleanly(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """Some programs start others with closed streams; sockets must not get descriptors 0, 1 and 2."""
    script = f'exec "$@" {" ".join(f"{descriptor}>&-" for descriptor in closed)}'
    with silent_server(tmp_path / "data", ["sh", "-c", script, "sh"]) as process_id:
        for descriptor in closed:
            assert str(Path(f"/proc/{process_id}/fd/{descriptor}").readlink()) == "/dev/null"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as output:
        begin = [sys.executable, "-m", "kwire", "config", "explain"]
        ended = subprocess.run(begin, stdout=output, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (1, "kwire: standard output: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_server_whose_output_is_full_serves(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as output, silent_server(tmp_path / "data", stdout=output):
        pass
