"""Failures in a request: a broken invariant that threatens durable data stops the broker, others fail the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.cli import server_command
from kwire.cluster.security.authorizer import Authorizer
from kwire.invariants import failure_reason, threatens_durable_data
from kwire.log.checkpoints import CLEAN_SHUTDOWN_FILE
from kwire.server.assembly.broker import BrokerServer, start_broker
from kwire.server.settings.config import make_config
from tests.support.requests import batch, create_topic, produce
from tests.support.running import SECONDS, RunningBroker
from tests.support.waiting import eventually


class Failing(Authorizer):
    """Authorizer that raises an error on each request."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def allows(self, *_: object) -> bool:
        raise self._error


def make_fail(broker: RunningBroker, error: Exception) -> None:
    """Send a request that fails with this error."""
    with broker.client() as client:
        topic, _ = create_topic(client)
        allowing = broker.server.services.authorizer
        broker.authorize_by(Failing(error))
        with pytest.raises(ConnectionError):
            produce(client, topic, batch(b"record"))
        broker.authorize_by(allowing)


def failed_assertion(module: str) -> AssertionError:
    """Return an AssertionError raised in a module."""
    try:
        exec("assert False, 'one and one are two'", {"__name__": module})
    except AssertionError as error:
        return error
    raise ValueError(module)


@pytest.mark.parametrize("module", ["kwire.log.segment", "kwire.cluster.partitions.partition"])
def test_a_broken_invariant_of_durable_data_ends_the_broker_and_is_no_clean_end(tmp_path: Path, module: str) -> None:
    with RunningBroker(tmp_path) as broker:
        make_fail(broker, failed_assertion(module))
        assert broker.call(lambda: str(broker.server.failed.result())) == "one and one are two"
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize(
    "error", [failed_assertion("kwire.server.fetching.fetch_sessions"), RuntimeError("an unexpected error")], ids=str
)
def test_any_other_failure_ends_the_request_alone(tmp_path: Path, error: Exception) -> None:
    with RunningBroker(tmp_path) as broker:
        make_fail(broker, error)
        assert not broker.call(broker.server.failed.done)
        with broker.client() as client:
            topic, _ = create_topic(client)
            assert produce(client, topic, batch(b"record")).error_code == 0
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize(
    ("error", "is_over"),
    [
        (failed_assertion("kwire.log.partition_log"), True),
        (failed_assertion("kwire.server.fetching.delayed_fetch"), False),
        (ValueError("wrong"), False),
    ],
    ids=["durable", "soft", "no-assertion"],
)
def test_a_broken_invariant_of_durable_data_in_a_timer_ends_the_broker(
    tmp_path: Path, error: Exception, *, is_over: bool
) -> None:
    def fail() -> None:
        raise error

    with RunningBroker(tmp_path) as broker:
        broker.call(lambda: asyncio.get_running_loop().call_later(0, fail))
        if is_over:
            eventually(lambda: broker.call(broker.server.failed.done), "the broker to end")
        with broker.client() as client:
            assert create_topic(client)
        assert broker.call(broker.server.failed.done) == is_over


def test_the_innermost_package_with_state_owns_a_broken_invariant() -> None:
    def through(*modules: str) -> AssertionError:
        frames: Callable[[], None] | None = None
        for module in reversed(modules):
            scope: dict[str, Any] = {"__name__": module, "inner": frames}
            exec("def run():\n    assert inner\n    inner()", scope)
            frames = scope["run"]
        assert frames is not None
        with pytest.raises(AssertionError) as caught:
            frames()
        return caught.value

    produce, partition = "kwire.server.apis.records.produce", "kwire.cluster.partitions.partition"
    assert threatens_durable_data(through(produce, "kwire.log.segment", "kwire.protocol.records"))
    assert threatens_durable_data(through("kwire.coordinator.shard", partition))
    assert not threatens_durable_data(through(partition, "kwire.server.fetching.delayed_fetch"))
    assert not threatens_durable_data(through("kwire.log.partition_log", "kwire.coordinator.shard", "kwire.seams"))
    assert not threatens_durable_data(through("kwire.protocol.records"))
    assert not threatens_durable_data(KeyError("kwire.log"))


async def start_broken(*args: Any, **options: Any) -> BrokerServer:
    """Start a broker that fails as soon as it serves."""
    server = await start_broker(*args, **options)
    server._node.background.fail(AssertionError("broken"))
    return server


def test_a_broken_invariant_has_an_exit_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_command, "start_broker", start_broken)
    config = make_config({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})

    async def serve() -> int:
        async with asyncio.timeout(SECONDS):
            return await server_command._serve(config, stop_with_stdin=False)

    assert asyncio.run(serve()) == server_command.EXIT_BROKEN == 70
    assert "stopped, because broken" in capsys.readouterr().err


def test_a_failure_without_a_message_is_described_by_type_and_place() -> None:
    def fail() -> None:
        raise AssertionError

    with pytest.raises(AssertionError) as caught:
        fail()
    place = f"{__file__}:{fail.__code__.co_firstlineno + 1}"
    assert failure_reason(caught.value) == f"AssertionError at {place}"
    assert failure_reason(ValueError("wrong")) == "wrong"
    assert failure_reason(ValueError()) == "ValueError"
