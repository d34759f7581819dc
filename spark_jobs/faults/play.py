"""Play of one round: a disturbed run of the queries, healing, a last run that must not fail, and the check."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from spark_jobs.faults.brokers import OneBroker, ThreeBrokers, create_topics, delete_topic
from spark_jobs.faults.check import Outputs, Topic, check
from spark_jobs.faults.driver import Driver, DriverKilledError
from spark_jobs.faults.inject import INJECTED, SINK, point_of
from spark_jobs.faults.job import Job
from spark_jobs.faults.reading import Offsets, client_of, committed, planned_batches
from spark_jobs.faults.rounds import Brokers, Round
from spark_jobs.faults.scene import Scene
from spark_jobs.faults.stream import PARTITIONS, InputStream, Ledger
from spark_jobs.faults.truth import confirmed, passed_over
from spark_jobs.pipeline.config import Config, Events, Tables

FIRST_EVENTS, EVENTS_DURING, LAST_EVENTS = 330, 120, 150
"""Events before the disturbed run, during it, and before the last one."""
EVENTS_OF_NEW_TOPIC = 60
"""Events before the first run over a topic made anew; the offsets that the queries have read are larger."""
PAUSE_SECONDS = 0.3
OFFSETS_PER_BATCH = 200
ABORTED, ABORTED_OFTEN = 0.15, 0.6
"""Shares of the transactions that are aborted."""
INPUT_CONFIG = {"segment.ms": "120000", "min.cleanable.dirty.ratio": "0.01"}
"""Segments of two minutes of event time, which retention and compaction can delete."""
EVENTS = Events(ahead="1 minute", behind="5 minutes", watermark="6 minutes")


@dataclass(slots=True, kw_only=True)
class Result:
    """Result of a round."""

    seed: int
    faults: list[str]
    fired: list[str] = field(default_factory=list)
    """Faults that did disturb."""
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    """Traceback if the round could not be played."""
    records: int = 0
    seconds: float = 0.0


class Former(NamedTuple):
    """Input topic that was deleted."""

    topic: Topic
    batches: Mapping[str, list[Offsets]]
    """For each query, the ends of the batches that it had planned."""


class Stage:
    """Brokers and drivers, which live through the rounds until a fault kills them."""

    def __init__(self, directory: Path, broker: str, plant: str | None = None) -> None:
        self._directory = directory
        self._broker = broker
        self._plant = plant
        self._sites: dict[Brokers, Any] = {}
        self._driver: Driver | None = None
        self._jars = ""

    def site(self, kind: Brokers) -> Any:
        if kind not in self._sites:
            made = {Brokers.ONE: OneBroker, Brokers.THREE: ThreeBrokers}[kind]
            self._sites[kind] = made(self._broker, self._directory / f"{kind.name.lower()}-{time.time_ns()}")
            self._sites[kind].start()
        return self._sites[kind]

    def prepare_driver(self, *, has_executors: bool) -> Driver:
        """Return a driver that may not have started yet."""
        if self._driver is not None and not (self._driver.is_alive and self._driver.has_executors == has_executors):
            self._driver.close()
            self._driver = None
        if self._driver is None:
            self._driver = Driver(
                self._directory / "driver", has_executors=has_executors, plant=self._plant, jars=self._jars
            )
        return self._driver

    def driver(self, *, has_executors: bool) -> Driver:
        found = self.prepare_driver(has_executors=has_executors)
        self._jars = found.await_start()
        return found

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
        for site in self._sites.values():
            site.close()


@contextmanager
def stage(directory: Path, broker: str, plant: str | None = None) -> Iterator[Stage]:
    made = Stage(directory, broker, plant)
    try:
        yield made
    finally:
        made.close()


def play(plan: Round, on: Stage, directory: Path) -> Result:
    """Play a round and return its result."""
    begun = time.monotonic()
    result = Result(seed=plan.seed, faults=[each.name for each in plan.faults])
    on.prepare_driver(has_executors=plan.has_executors)
    site = on.site(plan.brokers)
    job = job_of(plan, site.bootstrap, directory)
    create_topics(site.bootstrap, [job.config.input], PARTITIONS, INPUT_CONFIG)
    create_topics(site.bootstrap, [job.copies, job.config.output, job.config.dead_letters], PARTITIONS)
    aborted = ABORTED_OFTEN if plan.has("transactions aborted") else ABORTED
    stream = InputStream(client_of(site.bootstrap), job.config.input, plan.source("stream"), aborted)
    stream.send(FIRST_EVENTS)
    scene = Scene(plan, site, on.driver(has_executors=plan.has_executors), job)
    disturb(scene, stream, result)
    scene.driver = on.driver(has_executors=plan.has_executors)
    former = made_anew(scene, stream, result) if plan.has("input made anew") else None
    stream.send(LAST_EVENTS)
    run_undisturbed(scene, result, "last run")
    result.findings += check(inputs(scene, stream.ledger, former, result), plan.queries, outputs(scene))
    result.seconds = time.monotonic() - begun
    return result


def job_of(plan: Round, bootstrap: str, directory: Path) -> Job:
    name = f"round-{plan.seed}"
    config = Config(
        bootstrap=bootstrap,
        input=f"{name}-input",
        checkpoint=str(directory / "checkpoint"),
        tables=Tables(path=str(directory / "tables"), format=plan.table_format),
        name=name,
        queries=plan.queries,
        max_offsets_per_trigger=OFFSETS_PER_BATCH,
        fail_on_data_loss=not plan.deletes,
        slots=2,
        events=EVENTS,
        librdkafka={"client.id": SINK, "transaction.timeout.ms": 20_000},
    )
    return Job(config=config, copies=f"{name}-copies")


def disturb(scene: Scene, stream: InputStream, result: Result) -> None:
    """Run the queries while faults occur and more events are sent."""
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(stream.send, EVENTS_DURING, PAUSE_SECONDS, scene.ended)
        occurring = {
            each.name: pool.submit(INJECTED[each.name], scene, scene.plan.source(each.name))
            for each in scene.plan.faults
            if each.name in INJECTED
        }
        try:
            result.notes += scene.driver.run(replace(scene.job, point=point_of(scene.plan)))
        except DriverKilledError:
            scene.driver.await_end()
            if not any(each.ends_run for each in scene.plan.faults):
                result.findings.append("the driver ended, and no fault had killed it")
        finally:
            scene.ended.set()
        sending.result()
        result.fired += [name for name, occurred in occurring.items() if occurred.result()]


def run_undisturbed(scene: Scene, result: Result, name: str) -> None:
    result.findings += [f"{name} failed: {each}" for each in scene.driver.run(scene.job)]


def made_anew(scene: Scene, stream: InputStream, result: Result) -> Former:
    """Delete the input when all of it was read, and create it again; return what it was."""
    run_undisturbed(scene, result, "run before the input is made anew")
    former = Former(
        input_of(scene, stream.ledger, result),
        {query: planned_batches(scene.checkpoint, query, scene.input) for query in scene.queries},
    )
    delete_topic(scene.site.bootstrap, scene.input)
    create_topics(scene.site.bootstrap, [scene.input], PARTITIONS, INPUT_CONFIG)
    result.fired.append("input made anew")
    stream.begin()
    stream.send(EVENTS_OF_NEW_TOPIC)
    run_undisturbed(scene, result, "first run over the new input")
    return former


def input_of(scene: Scene, ledger: Ledger, result: Result) -> Topic:
    """Return the input as it is now; what it has must be what was committed."""
    found = committed(scene.site.bootstrap, scene.input)
    result.findings += confirmed(ledger, found, may_lack=scene.is_deleted)
    result.records += len(ledger.entries)
    return Topic(ledger, frozenset((each.partition, each.offset) for each in found), scene.read)


def inputs(scene: Scene, ledger: Ledger, former: Former | None, result: Result) -> list[Topic]:
    """Return the input, after the one that was deleted if there was one."""
    last = input_of(scene, ledger, result)
    if former is None:
        return [last]
    skipped = {
        query: passed_over(before, planned_batches(scene.checkpoint, query, scene.input))
        for query, before in former.batches.items()
    }
    return [former.topic, replace(last, skipped=skipped)]


def outputs(scene: Scene) -> Outputs:
    topics = {
        name: committed(scene.site.bootstrap, name)
        for name in (scene.job.copies, scene.job.config.dead_letters, scene.job.config.output)
    }
    return Outputs(scene.driver.rows(scene.job), *topics.values())
