"""Phases of a start: one that fails or is cancelled releases everything that it acquired."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from compat_tests.harness.ports import free_ports
from kwire.cluster.directory import DirectoryRejected
from kwire.server.assembly.broker import start_broker
from kwire.server.node.node import Node
from kwire.server.node.runtime import Seams
from kwire.server.settings.config import BrokerConfig, make_config
from tests.support.running import RunningBroker

SECONDS = 30.0
ALONE = {"listeners": "PLAINTEXT://127.0.0.1:0"}
IDENTITY = "version=1\ncluster.id=abcdefghijklmnopqrstuv\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"


def open_files(directory: Path) -> list[str]:
    """Return the files below the directory that this process has open."""
    paths = (each.resolve() for each in Path("/proc/self/fd").iterdir())
    return [str(path) for path in paths if path.is_relative_to(directory)]


def one_of_two_voters(directory: Path, port: int, other_port: int) -> BrokerConfig:
    """Return the configuration of a node with both roles that waits for the other voter for ever."""
    (directory / "meta.properties").write_text(IDENTITY)
    return make_config(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{port},2@127.0.0.1:{other_port}",
            "log.dirs": str(directory),
        }
    )


def test_a_cancelled_start_closes_the_connections_of_the_controller(tmp_path: Path) -> None:
    async def main() -> None:
        port, other_port = free_ports(2)
        opened: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        config = one_of_two_voters(tmp_path, port, other_port)
        starting = asyncio.ensure_future(start_broker(config, Seams(opened=opened.set_result)))
        async with asyncio.timeout(SECONDS):
            await opened
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert await reader.read(1) == b"", "the other node learns at once that this one does not serve"
            writer.close()

    asyncio.run(main())
    assert open_files(tmp_path) == []


def test_an_observer_that_fails_releases_the_directory(tmp_path: Path) -> None:
    def fail(_: Node) -> None:
        raise ValueError("the observer has failed")

    config = make_config({**ALONE, "log.dirs": str(tmp_path)})
    with pytest.raises(ValueError, match="the observer has failed"):
        asyncio.run(start_broker(config, Seams(opened=fail)))
    assert open_files(tmp_path) == []
    RunningBroker(tmp_path).stop()


def test_a_rejected_metadata_log_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_: object) -> None:
        raise DirectoryRejected("log.dirs: the voters are other nodes")

    monkeypatch.setattr("kwire.server.node.node.reject_other_voters", reject)
    config = make_config({**ALONE, "log.dirs": str(tmp_path)})
    with pytest.raises(DirectoryRejected):
        asyncio.run(start_broker(config))
    assert open_files(tmp_path) == []
