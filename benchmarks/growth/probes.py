"""Measurements at each size: produce and fetch of one partition, metadata changes, the idle broker."""

import atexit
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from benchmarks.brokers import Run
from benchmarks.frames import fetch_error_position, fetch_frame, produce_error_position, produce_frame
from benchmarks.load import Loaded, load
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import RawClient
from tests.support.requests import batch, produce_request

USED = "used"
"""Topic of the one partition that is written to and read."""
WARM_UP_SECONDS = 0.5
WINDOWS = 5
ANSWERS_LEAST = 20
"""Minimum number of responses in a window."""
WINDOW_SECONDS = 0.5
REST_SECONDS = 5.0
"""Default of replica.high.watermark.checkpoint.interval.ms, in seconds."""
CHANGES = 8
"""Changes in a window."""
SETTLE_SECONDS = 60.0
IDLE_SHARE = 0.05
PATIENCE_SECONDS = 600.0
CREATE_VERSION, DELETE_VERSION, ALTER_VERSION, PRODUCE_VERSION = 7, 6, 1, 11
TOPIC_RESOURCE = 2


class Measured(Protocol):
    """Broker, or several of them."""

    def cpu_seconds(self) -> float: ...


class GrowthRun(Run):
    """Broker whose files stay until the program exits: file systems are slow for a while after many removals."""

    def __exit__(self, *_: object) -> None:
        self.broker.kill()
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)


def client_of(run: Run) -> RawClient:
    client = RawClient(run.broker.bootstrap)
    client.socket.settimeout(PATIENCE_SECONDS)
    return client


def create(client: RawClient, topics: dict[str, int]) -> None:
    """Create topics (name -> partitions) in one request."""
    wanted = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics.items()]
    made = client.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), CREATE_VERSION).topics
    assert not [each for each in made if each.error_code], made


def fresh_batch() -> bytes:
    """Return a batch of one record with the current time, so that retention does not delete it."""
    return batch(b"record", timestamp=int(time.time() * 1000))


def write_to_topic(client: RawClient, topic: str, count: int, acks: int = 1) -> None:
    """Append a record to each partition of a topic; retry the partitions that returned an error."""
    left = list(range(count))

    def write() -> bool:
        record = fresh_batch()
        wanted = [PartitionProduceData(index=index, records=record) for index in left]
        topic_data = [TopicProduceData(name=topic, partition_data=wanted)]
        request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=topic_data)
        (answer,) = client.ask(request, PRODUCE_VERSION).responses
        left[:] = [each.index for each in answer.partition_responses if each.error_code]
        return not left

    until(write)


def append_one(client: RawClient, topic: str) -> bool:
    """Return True if the first partition of the topic accepts a record."""
    answer = client.ask(produce_request(topic, fresh_batch(), acks=1), PRODUCE_VERSION)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code == ErrorCode.NONE


def make_used(run: Run) -> None:
    with client_of(run) as client:
        create(client, {USED: 1})
        until(lambda: append_one(client, USED))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while not holds():
        assert time.perf_counter() < deadline, "the broker does not get there"
        time.sleep(0.005)


def stop_seconds(run: Run) -> float:
    """Return the seconds from SIGTERM until the process has exited."""
    assert run.broker.process is not None
    started = time.perf_counter()
    run.broker.process.send_signal(signal.SIGTERM)
    run.broker.process.wait(PATIENCE_SECONDS)
    return time.perf_counter() - started


def settle(run: Measured, share: float = IDLE_SHARE) -> None:
    """Wait until the brokers use little CPU: work that a topic creation or a start left behind is then done."""
    deadline = time.perf_counter() + SETTLE_SECONDS
    while time.perf_counter() < deadline and cpu_share(run, 0.5) > share:
        pass


def cpu_share(run: Measured, seconds: float) -> float:
    """Return the CPU that the broker uses in the next seconds, as a share of one core."""
    cpu, started = run.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (run.cpu_seconds() - cpu) / (time.perf_counter() - started)


def requests(run: Run, name: str, frames: Iterable[bytes], error_position: int) -> dict[str, float]:
    """Measure latency and CPU of encoded requests, sent one after the other over one connection.

    The lowest of a few short windows is the result, because other processes on the machine only add time. The tail is
    the median of the windows.
    """
    sent = partial(load, run, list(frames), error_position, connections=1)
    return figures_of(name, windows_of(sent))


def windows_of(sent: Callable[..., Loaded]) -> list[Loaded]:
    """Return the windows of a load, after a warm-up."""
    sent(seconds=WARM_UP_SECONDS)
    windows = [sent(seconds=WINDOW_SECONDS) for _ in range(WINDOWS)]
    answered = [window for window in windows if window.answers >= ANSWERS_LEAST]
    assert answered, "no window has answers enough: the machine is too busy"
    return answered


def figures_of(name: str, windows: Iterable[Loaded]) -> dict[str, float]:
    kept = list(windows)
    return {
        f"{name} CPU, us": min(each.cpu_seconds / each.answers for each in kept) * 1e6,
        f"{name} p50, us": min(each.latencies_us[0] for each in kept),
        f"{name} p99, us": statistics.median(each.latencies_us[1] for each in kept),
    }


def produce_and_fetch(run: Run) -> dict[str, float]:
    """Measure produce requests of one 100-byte record with acks=1, and fetches of the same partition's first batch."""
    produced = requests(run, "produce", [produce_frame(USED, 0, 100)], produce_error_position(USED))
    return produced | requests(run, "fetch", [fetch_frame(USED, 0, 100)], fetch_error_position(USED))


def repeated(run: Run, once: Callable[[int], None], count: int) -> tuple[float, float]:
    """Repeat an operation in a few windows; return the CPU of one (lowest window) and its median time, in seconds."""
    cpus: list[float] = []
    medians: list[float] = []
    for window in range(WINDOWS):
        cpu = run.cpu_seconds()
        taken: list[float] = []
        for number in range(count):
            started = time.perf_counter()
            once(window * count + number)
            taken.append(time.perf_counter() - started)
        cpus.append((run.cpu_seconds() - cpu) / count)
        medians.append(statistics.median(taken))
    return min(cpus), min(medians)


def metadata_changes(run: Run) -> dict[str, float]:
    """Measure creating a topic with one partition, altering its configuration, and deleting it."""
    figures: dict[str, float] = {}
    with client_of(run) as client:
        for what, change in {"create": create_one, "alter": alter_one, "delete": delete_one}.items():
            cpu, taken = repeated(run, lambda number, do=change: do(client, f"changed-{number}"), CHANGES)  # type: ignore[misc]
            figures |= {f"{what} a topic CPU, us": cpu * 1e6, f"{what} a topic, ms": taken * 1e3}
    return figures


def create_one(client: RawClient, name: str) -> None:
    create(client, {name: 1})


def alter_one(client: RawClient, name: str) -> None:
    altered = IncrementalAlterConfigsAlterableConfig(name="max.message.bytes", config_operation=0, value="1000000")
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configs=[altered]
    )
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), ALTER_VERSION).responses
    assert answer.error_code == ErrorCode.NONE, answer


def delete_one(client: RawClient, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=60_000)
    (answer,) = client.ask(request, DELETE_VERSION).responses
    assert answer.error_code == ErrorCode.NONE, answer


def at_rest(run: Run) -> dict[str, float]:
    """Measure CPU without requests, for at least one high watermark checkpoint, and the resident memory."""
    return {"CPU at rest, us/s": cpu_share(run, REST_SECONDS) * 1e6, "memory, MB": run.resident_megabytes()}
