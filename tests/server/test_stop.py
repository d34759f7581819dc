"""Clean stop of a broker: workers flush its logs, while the event loop and the quorum continue."""

from __future__ import annotations

import threading
from pathlib import Path

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.log.large_batches import LargeBatches
from kwire.protocol.compression import Codec
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.log.faults import FaultyDisk
from tests.support.requests import batch, create_topic, produce, produce_request
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

COUNT = 8


class ThreadNotingDisk(FaultyDisk):
    """Disk that records the thread of each sync, and can hold syncs of partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[tuple[str, str]] = []
        """(name of the thread, path) of each sync."""
        self.may_sync = threading.Event()
        self.may_sync.set()

    def check(self, operation: str, path: str) -> None:
        super().check(operation, path)
        if operation == "fsync":
            self.syncs.append((threading.current_thread().name, path))
            if "/orders-" in path:
                assert self.may_sync.wait(30)


def running_with_records(data_dir: Path, disk: FaultyDisk) -> RunningBroker:
    """Start a broker with an unflushed record in each partition of a topic."""
    running = RunningBroker(data_dir, disk=disk)
    with running.client() as client:
        create_topic(client, COUNT, name="orders")
        for partition in range(COUNT):
            assert produce(client, "orders", batch(b"a"), partition=partition).error_code == 0
    return running


def test_workers_sync_what_a_stop_makes_durable(tmp_path: Path) -> None:
    disk = ThreadNotingDisk()
    running = running_with_records(tmp_path / "data", disk)
    loop_thread = running.call(lambda: threading.current_thread().name)
    disk.syncs.clear()
    running.stop()
    partitions = {path.split("/")[-2] for _, path in disk.syncs if path.endswith(".log") and "/orders-" in path}
    assert partitions == {f"orders-{index}" for index in range(COUNT)}
    by_loop = [path for thread, path in disk.syncs if thread == loop_thread and "__cluster_metadata" not in path]
    assert by_loop == []
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_quorum_continues_while_logs_are_flushed(tmp_path: Path) -> None:
    disk = ThreadNotingDisk()
    running = running_with_records(tmp_path / "data", disk)
    metadata_log = running.server.metadata_log
    disk.may_sync.clear()
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    try:
        eventually(lambda: any("/orders-" in path for _, path in disk.syncs), "a worker syncs")
        assert running.call(lambda: metadata_log.is_active)
        assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    finally:
        disk.may_sync.set()
        stopping.join()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


async def enter(large_batches: LargeBatches) -> None:
    """Enter the place for large batches."""
    await large_batches.acquire()


def test_a_request_in_progress_writes_nothing_after_the_flush_of_a_stop(tmp_path: Path) -> None:
    """The request continues after its connection was closed, gets no response, and its records are rejected."""
    disk = ThreadNotingDisk()
    running = RunningBroker(tmp_path / "data", disk=disk)
    services = running.server.services
    with running.client() as client:
        create_topic(client, 1, name="orders", cleanup_policy="compact")
        assert produce(client, "orders", batch(b"first", key=b"k")).error_code == 0
        running.start(enter(services.large_batches)).result(30)
        late = batch(bytes(3 << 20), key=b"k", codec=Codec.GZIP)
        client.send_bytes(client.frame(produce_request("orders", late), 9))
        eventually(lambda: running.memory_used > 0, "the batch waits for its turn")
        log = running.call(lambda: services.partitions.find("orders", 0).log)
        disk.may_sync.clear()
        disk.syncs.clear()
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        try:
            eventually(lambda: any("/orders-" in path for _, path in disk.syncs), "a worker syncs")
            running.call(services.large_batches.release)
            eventually(lambda: running.memory_used == 0, "the request has ended")
        finally:
            disk.may_sync.set()
            stopping.join()
    assert log.log_end_offset == 1
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_stop_flushes_with_the_current_number_of_recovery_threads(tmp_path: Path) -> None:
    disk = ThreadNotingDisk()
    running = running_with_records(tmp_path / "data", disk)
    alteration = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name="",
        configs=[IncrementalAlterConfigsAlterableConfig(name="num.recovery.threads.per.data.dir", value="4")],
    )
    with running.client() as client:
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[alteration]), 1)
        assert answer.responses[0].error_code == 0
    eventually(lambda: running.server.settings.values["num.recovery.threads.per.data.dir"] == 4, "the broker follows")
    disk.may_sync.clear()
    disk.syncs.clear()
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    try:
        eventually(lambda: len({thread for thread, path in disk.syncs if "/orders-" in path}) == 4, "four workers sync")
    finally:
        disk.may_sync.set()
        stopping.join()


def test_a_clean_stop_ends_the_removal_of_a_deleted_topic(tmp_path: Path) -> None:
    """Otherwise the next start would find its logs and rename them to stray directories, which are not removed."""
    disk = ThreadNotingDisk()
    running = running_with_records(tmp_path / "data", disk)
    partitions = running.server.services.partitions
    running.call(lambda: partitions.removals.add("orders", partitions._by_topic.pop("orders")))
    running.stop()
    found = [path.name for path in (tmp_path / "data").iterdir() if path.name.startswith("orders-")]
    assert len(found) == COUNT
    assert all(name.endswith("-delete") for name in found)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
