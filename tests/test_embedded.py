"""kwire.Broker: a broker inside a program, in a thread or in a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest

import kwire
from kwire.embedded import LEAVE_QUORUM_LINE, _ProcessRunner
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.support.processes import shadow_modules
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.waiting import eventually

Isolation = Literal["thread", "process"]
both = pytest.mark.parametrize("isolation", ["thread", "process"])


def round_trip(broker: kwire.Broker, value: bytes = b"v") -> str:
    with RawClient(broker.bootstrap_server) as client:
        topic, _ = create_topic(client)
        assert produce(client, topic, batch(value)).error_code == 0
        assert values_in(fetch(client, topic).records) == [value]
    return topic


@both
def test_a_broker_serves_only_within_its_with_block(isolation: Isolation) -> None:
    with kwire.Broker(isolation=isolation) as broker:
        round_trip(broker)
        address = broker.bootstrap_server
    with pytest.raises(ConnectionRefusedError):
        RawClient(address)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = broker.bootstrap_server


def test_files_in_the_current_directory_do_not_shadow_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    with kwire.Broker(isolation="process") as broker:
        round_trip(broker)


def test_several_brokers_run_side_by_side() -> None:
    with kwire.Broker() as one, kwire.Broker() as two, kwire.Broker(isolation="process") as three:
        assert len({one.bootstrap_server, two.bootstrap_server, three.bootstrap_server}) == 3
        for broker in (one, two, three):
            round_trip(broker)


@both
def test_data_in_data_dir_survives_a_restart(isolation: Isolation, tmp_path: Path) -> None:
    with kwire.Broker(data_dir=tmp_path, isolation=isolation) as broker:
        topic = round_trip(broker, b"kept")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with kwire.Broker(data_dir=tmp_path, isolation=isolation) as broker, RawClient(broker.bootstrap_server) as client:
        assert values_in(fetch(client, topic).records) == [b"kept"]


@pytest.mark.parametrize("name", ["my,data", "data ", "data\n", ""])
def test_a_directory_that_log_dirs_cannot_name_is_rejected(name: str, tmp_path: Path) -> None:
    """A log.dirs setting with such a name would mean another directory."""
    with pytest.raises(ValueError, match=r"^data_dir: "):
        kwire.Broker(data_dir=name and str(tmp_path / name))


@pytest.mark.parametrize("arguments", [{"data_dir": b"/tmp/x"}, {"config": {1: "x"}}])
def test_arguments_of_a_wrong_type_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"^(data_dir|config): "):
        kwire.Broker(**arguments)


def test_settings_too_long_for_a_process_are_an_error() -> None:
    broker = kwire.Broker({"unknown.setting": "x" * 30_000, **{f"unknown.{n}": "x" * 30_000 for n in range(90)}})
    with broker:
        round_trip(broker)
    with pytest.raises(kwire.BrokerFailedError, match=r"^the broker's process cannot be started: "):
        kwire.Broker(broker._config, isolation="process").start()


@both
def test_a_temporary_path_with_a_comma_is_rejected_and_removes_no_files(
    isolation: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, temporary = tmp_path / "project", tmp_path / "project,v2"
    for directory in (others, temporary):
        directory.mkdir()
    (others / "file").write_text("x")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    broker = kwire.Broker(isolation=isolation)
    with pytest.raises(kwire.BrokerFailedError, match="set TMPDIR, or give data_dir"):
        broker.start()
    assert (others / "file").read_text() == "x"
    assert not list(temporary.iterdir())


@both
def test_a_temporary_directory_goes_with_the_broker(
    isolation: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with kwire.Broker(isolation=isolation) as broker:
        round_trip(broker)
        (made,) = tmp_path.iterdir()
        assert made.name.startswith("kwire-")
    assert not list(tmp_path.iterdir())
    with pytest.raises(kwire.BrokerFailedError):
        kwire.Broker({"num.partitions": 0}, isolation=isolation).start()
    assert not list(tmp_path.iterdir())


@both
def test_a_failed_start_raises_its_reason(isolation: Isolation, tmp_path: Path) -> None:
    (tmp_path / "foreign").touch()
    with pytest.raises(kwire.BrokerFailedError, match=r"log\.dirs: .* holds files but no meta\.properties"):
        kwire.Broker(data_dir=tmp_path, isolation=isolation).start()
    with pytest.raises(kwire.BrokerFailedError, match=r"num\.partitions"):
        kwire.Broker({"num.partitions": "x"}, isolation=isolation).start()
    with kwire.Broker() as running:
        taken = {"listeners": f"PLAINTEXT://{running.bootstrap_server}"}
        with pytest.raises(kwire.BrokerFailedError, match="listeners: cannot listen on"):
            kwire.Broker(taken, isolation=isolation).start()


@both
def test_a_stopped_broker_can_be_started_again(isolation: Isolation) -> None:
    broker = kwire.Broker(isolation=isolation)
    for _ in range(2):
        broker.start()
        round_trip(broker)
        with pytest.raises(RuntimeError, match="runs already"):
            broker.start()
        broker.stop()
        broker.stop()


def test_settings_are_given_as_python_values() -> None:
    config = {"auto.create.topics.enable": False, "num.partitions": 3, "log.cleanup.policy": ["delete", "compact"]}
    with kwire.Broker(config) as broker:
        round_trip(broker)


def test_an_unknown_isolation_is_rejected() -> None:
    with pytest.raises(ValueError, match="isolation"):
        kwire.Broker(isolation="container")  # type: ignore[arg-type]


def test_a_broker_is_used_from_many_threads() -> None:
    with kwire.Broker() as broker, ThreadPoolExecutor(8) as pool:
        topics = list(pool.map(lambda number: round_trip(broker, b"%d" % number), range(24)))
    assert len(set(topics)) == 24


@both
def test_a_block_that_raises_stops_the_broker(isolation: Isolation) -> None:
    with pytest.raises(KeyError), kwire.Broker(isolation=isolation) as broker:
        address = broker.bootstrap_server
        raise KeyError("mine")
    with pytest.raises(ConnectionRefusedError):
        RawClient(address)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
@both
def test_no_threads_or_descriptors_are_left_after_a_stop(isolation: Isolation, tmp_path: Path) -> None:
    (tmp_path / "foreign").touch()

    def once() -> None:
        with kwire.Broker(isolation=isolation) as broker:
            round_trip(broker)
        with pytest.raises(kwire.BrokerFailedError):
            kwire.Broker(data_dir=tmp_path, isolation=isolation).start()

    once()
    threads, files = threading.active_count(), descriptors()
    for _ in range(3):
        once()
    eventually(lambda: threading.active_count() <= threads, "threads to end")
    eventually(lambda: descriptors() <= files, "descriptors to be given back")


def test_a_program_that_ends_without_stop_ends() -> None:
    program = "import kwire; broker = kwire.Broker().start(); print(broker.bootstrap_server)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ":" in ended.stdout


FORKS = """
import os, sys, kwire
with kwire.Broker(isolation=sys.argv[1]) as broker:
    directory = broker._temporary
    for leave in (sys.exit, os._exit):
        child = os.fork()
        if child == 0:
            leave(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert os.path.isdir(directory)
    kept = kwire.Broker(isolation=sys.argv[1]).start()
    child = os.fork()
    if child == 0:
        kept.stop()
        sys.exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert os.path.isdir(kept._temporary)
    print(broker.bootstrap_server, kept.bootstrap_server, flush=True)
    sys.stdin.read()
"""


@both
def test_a_fork_that_exits_does_not_stop_the_broker(isolation: Isolation) -> None:
    forking = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKS, isolation],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert forking.stdout is not None
    for address in forking.stdout.readline().split():
        with RawClient(address) as client:
            create_topic(client)
    _, errors = forking.communicate(timeout=60)
    assert (forking.returncode, errors) == (0, "")


ABANDONS = """
import os, sys, kwire
broker = kwire.Broker(isolation=sys.argv[1]).start()
print(broker.bootstrap_server, broker._temporary, flush=True)
if sys.argv[2] == "kill":
    os.kill(os.getpid(), 9)
if sys.argv[2] == "kill beside a fork" and os.fork():
    os.kill(os.getpid(), 9)
if sys.argv[2] == "kill beside a fork":
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("isolation", "end"),
    [("thread", "forget"), ("process", "forget"), ("process", "kill"), ("process", "kill beside a fork")],
)
def test_a_program_that_ends_without_stop_leaves_no_broker_and_no_directory(isolation: str, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ABANDONS, isolation, end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        address, directory = program.stdout.readline().split()
        program.wait(60)
        eventually(lambda: not Path(directory).exists(), "the directory to be removed", 30)
        with pytest.raises(ConnectionRefusedError):
            RawClient(address)
        program.stdin.close()


def test_the_error_of_a_killed_process_has_its_signal_and_last_output() -> None:
    broker = kwire.Broker({"unknown.setting": 1}, isolation="process").start()
    runner = broker._runner
    assert isinstance(runner, _ProcessRunner)
    assert runner._process is not None
    runner._process.kill()
    runner._process.wait()
    with pytest.raises(
        kwire.BrokerFailedError, match=r"(?s)^the broker's process was killed by SIGKILL; .*unknown\.setting"
    ):
        broker.stop()


@both
def test_a_start_that_is_interrupted_leaves_nothing_behind(isolation: Isolation, tmp_path: Path) -> None:
    """The interrupt models Ctrl-C, or the alarm of a test timeout, at any moment of the start."""
    code = f"""
        import os, signal, tempfile, kwire
        Broker = kwire.Broker  # imports what it needs, before there are interrupts
        class Interrupted(Exception): pass
        def interrupt(*_): raise Interrupted
        signal.signal(signal.SIGALRM, interrupt)
        tempfile.tempdir = {str(tmp_path)!r}
        for seconds in (0.001, 0.02, 0.05, 0.1, 0.2):
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                with Broker(isolation={isolation!r}):
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                print("interrupted")
            signal.setitimer(signal.ITIMER_REAL, 0)
        import threading
        print([each.name for each in threading.enumerate() if each.name == "kwire-broker"])
        print(os.listdir({str(tmp_path)!r}))
        try:
            while True:
                os.waitpid(-1, 0)  # one whose Popen() was interrupted ends when it finds its input closed
        except ChildProcessError:
            print("no child")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *interrupted, threads, left, children = done.stdout.splitlines()
    assert interrupted, "no start was interrupted"
    assert (threads, left, children) == ("[]", "[]", "no child"), done.stdout


def test_a_process_that_exited_by_itself_is_an_error_at_stop() -> None:
    broker = kwire.Broker(isolation="process").start()
    runner = broker._runner
    assert isinstance(runner, _ProcessRunner)
    process = runner._process
    assert process is not None
    assert process.stdin is not None
    process.terminate()
    process.stdin.write(LEAVE_QUORUM_LINE)
    process.stdin.flush()
    assert process.wait(60) == 0
    with pytest.raises(kwire.BrokerFailedError, match=r"^the broker's process ended with status 0"):
        broker.stop()


INTERRUPTED = """
import signal, sys, kwire
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
with kwire.Broker(isolation=sys.argv[1]) as broker:
    try:
        print(broker.bootstrap_server, flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        print(broker.bootstrap_server, flush=True)
        sys.stdin.read()
"""


@both
def test_ctrl_c_does_not_stop_the_broker_of_a_program(isolation: Isolation) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, isolation],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        os.killpg(program.pid, signal.SIGINT)
        address = program.stdout.readline().strip()
        with RawClient(address) as client:
            create_topic(client)
        program.communicate(timeout=60)
        assert program.returncode == 0


@both
def test_a_path_may_be_any_bytes(isolation: Isolation, tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with kwire.Broker(data_dir=directory, isolation=isolation) as broker:
        round_trip(broker)
        with RawClient(broker.bootstrap_server) as client:
            (reported,) = client.ask(DescribeLogDirsRequest(topics=None), 4).results
            asked = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["log.dirs"])
            (result,) = client.ask(DescribeConfigsRequest(resources=[asked]), 4).results
        assert reported.log_dir == result.configs[0].value == f"{tmp_path}/\ufffd"
    (directory / "meta.properties").write_text("version=77\n")
    with pytest.raises(kwire.BrokerFailedError, match=r"meta\.properties"):
        kwire.Broker(data_dir=directory, isolation=isolation).start()


LIVES_ON = """
import os, socket, sys, kwire
broker = kwire.Broker(data_dir=sys.argv[1]).start()
host, port = broker.bootstrap_server.split(":")
client = socket.create_connection((host, int(port)))
client.sendall(bytes.fromhex("0000000c 0012 0000 00000001 0002 6162"))
assert client.recv(1)
alive, gone = os.pipe()
if os.fork() == 0:
    client.close()
    os.close(gone)
    os.read(alive, 1)
    os._exit(0)
broker.stop()
while client.recv(65536):
    pass
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as for connections of before
listener.bind((host, int(port)))
listener.listen()
listener.close()
with kwire.Broker(data_dir=sys.argv[1]):
    print("well")
"""


def test_a_surviving_fork_keeps_no_files_or_sockets_of_the_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", LIVES_ON, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("well\n", "")


def test_a_program_may_change_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kwire.Broker(data_dir="data") as broker:
        monkeypatch.chdir("/")
        round_trip(broker)
    assert (tmp_path / "data" / "meta.properties").exists()


STOPS = """
import _thread, asyncio, os, signal, sys, tempfile, threading
import kwire
from kwire.server.assembly.broker import BrokerServer
class Interrupted(Exception): pass
def interrupt(*_): raise Interrupted
signal.signal(signal.SIGALRM, interrupt)
tempfile.tempdir = sys.argv[2]
broker = kwire.Broker(isolation=sys.argv[1])
stop, join, interrupted = BrokerServer.stop, threading.Thread.join, threading.Event()
async def stop_late(server, **options):
    _thread.interrupt_main(signal.SIGALRM)  # as a signal that comes just before the wait: it ends no system call
    await asyncio.get_running_loop().run_in_executor(None, interrupted.wait)
    await stop(server, **options)
def join_interrupted(thread, timeout=None):
    threading.Thread.join = join
    signal.raise_signal(signal.SIGALRM)
broker.start()
if sys.argv[1] == "thread":
    BrokerServer.stop = stop_late
else:
    threading.Thread.join = join_interrupted
try:
    broker.stop()
    print("not interrupted")
except Interrupted:
    print(broker.bootstrap_server, os.listdir(sys.argv[2]) != [])
interrupted.set()
BrokerServer.stop = stop
broker.stop()
print([each.name for each in threading.enumerate() if each.name == "kwire-broker"], os.listdir(sys.argv[2]))
with broker:
    print(broker.bootstrap_server)
"""


@both
def test_an_interrupted_stop_is_completed_by_the_next_stop(isolation: Isolation, tmp_path: Path) -> None:
    """The interrupt models Ctrl-C, or the alarm of a test timeout; no directory is removed while the broker still
    stops.
    """
    command = [sys.executable, "-c", STOPS, isolation, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr == ""
    first, second, third = ended.stdout.splitlines()
    assert first.endswith(" True") or isolation == "process", "the directory goes when the process has ended"
    assert second == "[] []"
    assert third.startswith("127.0.0.1:")


def test_an_interrupted_directory_removal_is_completed_by_the_next_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = kwire.Broker().start()
    assert broker._temporary is not None
    directory = Path(broker._temporary)

    def interrupt(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", interrupt)
    with pytest.raises(KeyboardInterrupt):
        broker.stop()
    assert directory.is_dir()
    broker.stop()
    assert not directory.exists()
