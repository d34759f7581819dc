"""Faults during a run: each function waits for its moment, disturbs, heals, and returns True if it did disturb."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.harness.waiting import DeadlineExceededError, eventually
from spark_jobs.faults.brokers import SECONDS, admin
from spark_jobs.faults.points import Point
from spark_jobs.faults.proxy import Rule
from spark_jobs.faults.reading import bounds, client_of, committed
from spark_jobs.faults.rounds import Round
from spark_jobs.faults.scene import Scene
from spark_jobs.faults.stream import PARTITIONS, PER_SECOND, START

SINK = "sink"
"""Client id of the sinks."""
SOURCE = "consumer-spark"
"""Prefix of the client ids of Spark's source."""
SINK_APIS = ("Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId", "ListOffsets", "Fetch", "Metadata")
SOURCE_APIS = ("Fetch", "ListOffsets", "Metadata")
KILLS_MAX = 3
BATCHES = 2
"""Batches of the disturbed run at least."""
DOWN_SECONDS_MAX = 1.5
"""Longest time that a killed broker is down."""
DELETION_SECONDS = 15.0

POINTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "driver killed after the table": ("table ends", ("raw",)),
    "driver killed after the sink": ("sink ends", ("copies",)),
    "driver killed between table and sink": ("sink begins", ("counts",)),
}
"""For faults at a point of a batch: the place, and the tables or sinks."""


def point_of(plan: Round) -> Point | None:
    """Return the point at which the driver of a round is killed, None if there is none."""
    random_source = plan.source("point")
    for each in plan.faults:
        if each.name in POINTS:
            place, names = POINTS[each.name]
            return Point(place, random_source.choice(names), random_source.randrange(BATCHES))
    return None


def kill_driver(scene: Scene, random_source: Random) -> bool:
    return scene.moment(random_source) and scene.driver.kill()


def await_point(scene: Scene, random_source: Random) -> bool:
    """Wait for the end of a run whose driver is killed at a point."""
    scene.ended.wait()
    return not scene.driver.is_alive


def kill_python_workers(scene: Scene, random_source: Random) -> bool:
    killed = False
    for _ in range(random_source.randint(1, KILLS_MAX)):
        killed |= scene.moment(random_source) and scene.driver.kill_python_worker(random_source)
    return killed


def kill_executor(scene: Scene, random_source: Random) -> bool:
    return scene.moment(random_source) and scene.driver.kill_executor(random_source)


def kill_broker(scene: Scene, random_source: Random) -> bool:
    if not scene.moment(random_source):
        return False
    scene.site.kill(random_source)
    try:
        time.sleep(random_source.uniform(0, DOWN_SECONDS_MAX))  # the seed determines how long it is down
    finally:
        scene.site.restart()
    return True


def move_leaders(scene: Scene, random_source: Random) -> bool:
    moved = False
    for topic in (scene.input, scene.job.copies, f"{scene.job.config.name}-copies-progress"):
        moved |= scene.moment(random_source) and scene.three_brokers.move_leaders(topic, random_source)
    return moved


def drop_responses(scene: Scene, random_source: Random) -> bool:
    client_id, apis = random_source.choice(((SINK, SINK_APIS), (SINK, SINK_APIS), (SOURCE, SOURCE_APIS)))
    chosen = random_source.sample(apis, random_source.randint(1, 3))
    rule = Rule(apis=chosen, client_id=client_id, share=random_source.uniform(0.1, 0.5), count_max=12)
    return _disturb(scene, rule, random_source).total() > 0


def kill_python_workers_at_commit(scene: Scene, random_source: Random) -> bool:
    """Kill a Python worker when the broker has ended its transaction, before the worker gets the response."""
    share, count = random_source.uniform(0.2, 0.8), random_source.randint(1, 2)
    rule = Rule(apis=("EndTxn",), client_id=SINK, share=share, count_max=count, kills=True)
    _disturb(scene, rule, random_source)
    return bool(scene.one_broker.proxy.killed)


def _disturb(scene: Scene, rule: Rule, random_source: Random) -> Counter[str]:
    proxy = scene.one_broker.proxy
    proxy.disturb(rule, random_source)
    try:
        scene.ended.wait()
    finally:
        proxy.heal()
    return proxy.dropped


def keep_a_transaction_open(scene: Scene, random_source: Random) -> bool:
    """Hold a transaction open, so that queries wait in front of it, and abort it."""
    producer = Producer({**client_of(scene.site.bootstrap), "transactional.id": f"{scene.input}-open"})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(scene.input, b"never committed", b"open", partition)
    producer.flush()
    scene.moment(random_source)
    producer.abort_transaction()
    return True


def compact_input(scene: Scene, random_source: Random) -> bool:
    if not scene.moment(random_source):
        return False
    scene.note_read()
    before = _places(scene)
    _alter(scene, "cleanup.policy", "compact")
    try:
        return _happens(lambda: not before <= _places(scene))
    finally:
        _alter(scene, "cleanup.policy", "delete")


def delete_records(scene: Scene, random_source: Random) -> bool:
    """Delete records up to an offset that the raw query has not reached, if there is one."""
    if not scene.moment(random_source):
        return False
    scene.note_read()
    to_delete = []
    for partition, (low, high) in enumerate(bounds(scene.site.bootstrap, scene.input, PARTITIONS)):
        read = max(low, min(high, scene.read["raw"].get(partition, 0)))
        to_delete.append(TopicPartition(scene.input, partition, random_source.randint(read, high)))
    client = admin(scene.site.bootstrap)
    for deleted in client.delete_records(to_delete).values():
        deleted.result(SECONDS)
    return True


def expire_records(scene: Scene, random_source: Random) -> bool:
    """Let retention delete segments with records older than some that the raw query has not reached."""
    if not scene.moment(random_source):
        return False
    scene.note_read()
    before = bounds(scene.site.bootstrap, scene.input, PARTITIONS)
    records = sum(high for _, high in before)
    oldest_seconds = START.timestamp() + random_source.uniform(0.3, 0.9) * records / PER_SECOND
    _alter(scene, "retention.ms", str(int(1000 * (time.time() - oldest_seconds))))
    try:
        return _happens(
            lambda: any(
                new > old
                for (new, _), (old, _) in zip(
                    bounds(scene.site.bootstrap, scene.input, PARTITIONS), before, strict=True
                )
            )
        )
    finally:
        _alter(scene, "retention.ms", "-1")


def _places(scene: Scene) -> set[tuple[int, int]]:
    return {(each.partition, each.offset) for each in committed(scene.site.bootstrap, scene.input)}


def _happens(condition: Callable[[], bool]) -> bool:
    try:
        return eventually(condition, "records are deleted", DELETION_SECONDS)
    except DeadlineExceededError:
        return False


def _alter(scene: Scene, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, scene.input, incremental_configs=[entry])
    client = admin(scene.site.bootstrap)
    for altered in client.incremental_alter_configs([resource]).values():
        altered.result(SECONDS)


INJECTED: Mapping[str, Callable[[Scene, Random], bool]] = {
    "driver killed": kill_driver,
    "driver killed after the table": await_point,
    "driver killed after the sink": await_point,
    "driver killed between table and sink": await_point,
    "python worker killed": kill_python_workers,
    "python worker killed at its commit": kill_python_workers_at_commit,
    "executor killed": kill_executor,
    "broker killed": kill_broker,
    "broker of three killed": kill_broker,
    "leaders moved": move_leaders,
    "responses dropped": drop_responses,
    "transactions aborted": keep_a_transaction_open,
    "input compacted": compact_input,
    "records deleted": delete_records,
    "retention": expire_records,
}
"""Faults that occur while the queries run."""
