"""An invariant that does not hold ends the broker, loudly; any other mistake ends the one request that it concerns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kwire.cli import server_command
from kwire.log.checkpoints import CLEAN_SHUTDOWN_FILE
from kwire.server.broker import BrokerServer
from kwire.server.settings.config import make_config
from tests.support.requests import batch, create_topic, produce
from tests.support.running import SECONDS, RunningBroker
from tests.support.waiting import eventually


class Failing:
    """An authorizer that a request cannot get past."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def allows(self, *_: object) -> bool:
        raise self._error


def make_fail(broker: RunningBroker, error: Exception) -> None:
    """A request of a client that fails so."""
    with broker.client() as client:
        topic, _ = create_topic(client)
        allowing = broker.server.services.authorizer
        broker.authorize_by(Failing(error))
        with pytest.raises(ConnectionError):
            produce(client, topic, batch(b"record"))
        broker.authorize_by(allowing)


def test_a_broken_invariant_in_a_request_ends_the_broker_and_is_no_clean_end(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker:
        make_fail(broker, AssertionError("one and one are two"))
        assert broker.call(lambda: str(broker.server.failed.result())) == "one and one are two"
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


def test_any_other_mistake_ends_the_request_alone(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker:
        make_fail(broker, RuntimeError("nobody thought of this"))
        assert not broker.call(broker.server.failed.done)
        with broker.client() as client:
            topic, _ = create_topic(client)
            assert produce(client, topic, batch(b"record")).error_code == 0
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize(("error", "is_over"), [(AssertionError("broken"), True), (ValueError("wrong"), False)])
def test_a_broken_invariant_in_a_timer_ends_the_broker(tmp_path: Path, error: Exception, *, is_over: bool) -> None:
    def fail() -> None:
        raise error

    with RunningBroker(tmp_path) as broker:
        broker.call(lambda: asyncio.get_running_loop().call_later(0, fail))
        if is_over:
            eventually(lambda: broker.call(broker.server.failed.done), "the broker to end")
        with broker.client() as client:
            assert create_topic(client)
        assert broker.call(broker.server.failed.done) == is_over


class Broken(BrokerServer):
    """It finds out as soon as it serves."""

    async def start(self) -> None:
        await super().start()
        self._node.background.judge(AssertionError("broken"))


def test_a_broken_invariant_has_an_exit_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_command, "BrokerServer", Broken)
    config = make_config({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})

    async def serve() -> int:
        async with asyncio.timeout(SECONDS):
            return await server_command._serve(config, stop_with_stdin=False)

    assert asyncio.run(serve()) == server_command.EXIT_BROKEN == 70
    assert "stopped, because broken" in capsys.readouterr().err


def test_a_failure_without_words_is_told_by_its_kind_and_place() -> None:
    def fail() -> None:
        raise AssertionError

    with pytest.raises(AssertionError) as caught:
        fail()
    place = f"{__file__}:{fail.__code__.co_firstlineno + 1}"
    assert server_command._reason(caught.value) == f"AssertionError at {place}"
    assert server_command._reason(ValueError("wrong")) == "wrong"
    assert server_command._reason(ValueError()) == "ValueError"
