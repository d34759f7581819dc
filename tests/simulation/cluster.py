"""Scenario with a cluster: all responses to clients stay true under any faults of brokers and controllers.

`python -m tests.simulation.cluster --seed 7` runs one seed and prints what it did; --seeds 30 runs so many.

Clients create and delete topics of one to three replicas, produce with acks=all, read, commit offsets and request
producer ids, through random brokers. Other clients write to one topic with idempotent and transactional producers of
both protocols. They read it at both isolation levels, and consume it as a group. A share group, a consumer group and a
streams group have members that die and come back (modern_groups.py). One client deletes records from the start of a
topic, and an administrator moves replicas and leaders.

The seed determines the faults: as many as the cluster must survive (promise.py), and more in one of ten seeds. Rules
are checked throughout (cluster_rules.py, replica_rules.py, cluster_ledger.py), and so are histories
(cluster_history.py). Then all faults end. Within a time limit, every broker must be unfenced and every partition must
have a leader; all replicas and all images must be equal. Finally all records are read back. In one of three seeds, the
brokers are controllers too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from kwire.coordinator.loading import Loader
from kwire.simulation import SimulatedCluster, Simulation, Speed
from kwire.simulation.brokers import DIRECTORY
from tests.simulation.access import AccessRules, RightsKeeper, secured_config
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_clients import SAFE_SHAPES, SHAPES, Client
from tests.simulation.cluster_end import Healed
from tests.simulation.cluster_faults import CLUSTER_KINDS, ClusterFaults
from tests.simulation.cluster_groups import INSTANCES, PlaceKeeper
from tests.simulation.cluster_history import PARTITIONS, TOPIC, History
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.cluster_probes import SECOND_DIRECTORY, Prober
from tests.simulation.cluster_rules import ClusterRules
from tests.simulation.cluster_trimming import TOPIC as TRIMMED
from tests.simulation.cluster_trimming import Trimmer
from tests.simulation.heartbeat_rules import HeartbeatRules
from tests.simulation.history_clients import conclude, make_workers
from tests.simulation.modern_groups import ModernGroups, modern_config
from tests.simulation.promise import Crashes, Promise, draw_promise
from tests.simulation.replica_rules import ReplicaRules
from tests.simulation.seeds import run_seeds
from tests.simulation.session_rules import SessionRules
from tests.support.access_rights import GUARDED

SECONDS = 60.0
OPERATIONS_MIN = 1000
CLIENTS = 6
CHECK_EVENTS = 1000
LOOK_EVENTS = 32
COLD_SEEDS = 4
"""Inverse share of seeds whose brokers read records from the device, and not from the page cache."""
SECURED_SEEDS = 5
"""Inverse share of seeds whose nodes log in at each other."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


@dataclass(slots=True)
class Outcome:
    """Result of a seed."""

    digest: str = ""
    events: int = 0
    faults: int = 0
    operations: int = 0
    acknowledged: int = 0
    commits: int = 0
    topics: int = 0
    deleted: int = 0
    healed_seconds: float = 0.0
    promise: str = ""
    sends: int = 0
    transactions: int = 0
    classic: int = 0
    """Number of these that use the classic protocol."""
    excused: int = 0
    """Number of known anomalies of the classic protocol."""
    shares: int = 0
    """Number of assignments that members of the group received."""
    deliveries: int = 0
    """Number of ranges that members of the share group acquired."""
    acknowledgements: int = 0
    """Number of ranges that they acknowledged."""
    owned: int = 0
    """Number of times that a member of the consumer group gave a partition back in order."""
    allowed: int = 0
    denied: int = 0
    """Number of requests of the user whose rights change."""
    tasks: int = 0
    """Number of times that a member of the streams group gave an active task back in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Random decisions of a seed before it begins."""

    controllers: int
    """Number of separate controllers; 0 if the brokers are the controllers."""
    as_objects: bool
    """True in seven of eight seeds: the quorum's messages are passed as objects, without the codec."""
    config: dict[str, object]
    session_seconds: float
    speed: Speed
    per_minute: float
    loading_seconds: float
    """Pause of a coordinator for each record that it loads."""
    promise: Promise
    is_secured: bool
    """True in one of five seeds: nodes log in at each other, and access control changes."""


def draw(seed: int, simulation: Simulation, promise: Promise | None = None) -> Draw:
    random_source = simulation.random_source.child("draw")
    session_ms = random_source.pick((3000, 6000, 9000))
    controllers = 0 if seed % 3 == 0 else 3
    is_secured = seed % SECURED_SEEDS == 3
    promise = promise or draw_promise(seed, random_source.child("promise"), has_controllers=controllers > 0)
    return Draw(
        controllers=controllers,
        as_objects=seed % 8 != 0,
        config={
            "broker.session.timeout.ms": session_ms,
            "broker.heartbeat.interval.ms": session_ms // random_source.pick((4, 6)),
            "log.flush.interval.messages": promise.flush_messages,
            "min.insync.replicas": 2 if promise.is_bounded else random_source.pick((1, 2)),
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 3,
            "group.initial.rebalance.delay.ms": 0,
            "transaction.state.log.num.partitions": 2,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "replica.lag.time.max.ms": random_source.pick((1000, 3000, 10_000)),
            "replica.fetch.wait.max.ms": random_source.pick((500, 1000)),
            "metadata.log.max.record.bytes.between.snapshots": random_source.pick((3000, 20_000, 20_000_000)),
            "metadata.max.retention.bytes": random_source.pick((5000, 100_000_000)),
            **modern_config(random_source.child("modern groups")),
            **(secured_config() if is_secured else {}),
            **(
                {"log.dirs": f"{DIRECTORY},{SECOND_DIRECTORY}"}
                if random_source.child("directories").happens(0.4)
                else {}
            ),
        },
        session_seconds=session_ms / 1000,
        speed=Speed(mean_ms=random_source.pick((0.2, 0.2, 2.0, 20.0))),
        per_minute=random_source.pick((6.0, 12.0, 20.0)),
        loading_seconds=random_source.child("loading").pick((0.0, 0.0, 0.005)),
        promise=promise,
        is_secured=is_secured,
    )


@dataclass(slots=True)
class Scene:
    """All parts of a scenario."""

    simulation: Simulation
    cluster: SimulatedCluster
    rules: ClusterRules
    ledger: Ledger
    history: History
    groups: ModernGroups
    drawn: Draw


async def scenario(scene: Scene, outcome: Outcome, seconds: float, kinds: Sequence[str]) -> None:
    simulation, cluster, ledger, drawn = scene.simulation, scene.cluster, scene.ledger, scene.drawn
    await cluster.start()
    crashes = Crashes(cluster, drawn.promise)
    faults = ClusterFaults(simulation, cluster, crashes, kinds=kinds, session_seconds=drawn.session_seconds)
    shapes = SAFE_SHAPES if drawn.promise.is_bounded else SHAPES
    clients = [Client(simulation, cluster.brokers, ledger, f"c{number}", shapes=shapes) for number in range(CLIENTS)]
    administrator = Administrator(simulation, cluster.brokers, ledger, "admin", shapes=shapes)
    scene.history.topic_id = await administrator.create_for_good(TOPIC, PARTITIONS)
    trimmed = await administrator.create_for_good(TRIMMED, 1)
    await scene.groups.prepare(administrator, scene.history.topic_id, trimmed)
    trimmer = Trimmer(simulation, cluster.brokers, ledger, trimmed)
    prober = Prober(simulation, cluster.brokers, ledger, "prober", shapes=shapes)
    places = [PlaceKeeper(simulation, cluster.brokers, ledger, number) for number in range(len(INSTANCES))]
    keepers = [RightsKeeper(simulation, cluster.brokers, ledger)] if drawn.is_secured else []
    if keepers:
        await administrator.create_for_good(GUARDED, 1)
    workers = make_workers(simulation, cluster.brokers, ledger, scene.history)
    end = simulation.now + seconds
    await asyncio.gather(
        faults.run(seconds=seconds, per_minute=max(drawn.per_minute, 300.0 / seconds)),
        *(client.run(end) for client in (*clients, administrator, prober, trimmer)),
        *(place.run(end) for place in places),
        *(keeper.run(end) for keeper in keepers),
        *(worker.run(end) for worker in workers),
        *scene.groups.runs(end),
    )
    while ledger.operations < OPERATIONS_MIN * seconds / SECONDS:  # if faults delayed the clients
        await asyncio.gather(*(client.run(simulation.now + 1.0) for client in clients))
    outcome.faults = faults.count
    began = simulation.now
    healed = Healed(simulation, cluster, ledger)
    await healed.until("all brokers live", healed.lives)
    await healed.rescue(administrator)
    await healed.until("all brokers live, all partitions are led and in sync, all nodes know the same", healed.serves)
    outcome.healed_seconds = simulation.now - began
    for keeper in keepers:
        await keeper.conclude()
    healed.check_topics()
    await healed.read_back(clients)
    if not ledger.forgiven:
        await healed.read_commits(clients)
    if not healed.has_forgiven(TOPIC, *INTERNAL_TOPICS):
        await conclude(simulation, cluster.brokers, ledger, scene.history)
    await scene.groups.conclude(healed)
    for client in [*clients, administrator]:
        client.close()
    await healed.until("all replicas are the same", healed.replicas_agree)
    scene.rules.replicas.of_replicas_at_rest(healed.closed)


def run_seed(
    seed: int,
    seconds: float = SECONDS,
    *,
    kinds: Sequence[str] = CLUSTER_KINDS,
    promise: Promise | None = None,
) -> Outcome:
    """Run one seed. Raises AssertionError if a rule is broken."""
    outcome = Outcome()
    try:
        _run(seed, seconds, kinds, promise, outcome)
    except Exception as error:
        error.add_note(f"python -m tests.simulation.cluster --seed {seed} --seconds {seconds}")
        raise
    return outcome


@contextmanager
def slow_loading(seconds: float) -> Iterator[None]:
    """Make coordinators pause at each record that they load, so that leadership changes during the load."""
    pause = Loader._pause_if_due

    async def wait(loader: Loader) -> None:
        await asyncio.sleep(seconds)

    if seconds:
        setattr(Loader, "_pause_if_due", wait)  # noqa: B010 # mypy takes an assignment for a mistake
    try:
        yield
    finally:
        setattr(Loader, "_pause_if_due", pause)  # noqa: B010


def _is_cold(random_source: random.Random) -> bool:
    """Return True if records of an earlier process are only on the device."""
    return random_source.random() < 0.5


def _run(seed: int, seconds: float, kinds: Sequence[str], promise: Promise | None, outcome: Outcome) -> None:
    ledger = Ledger()
    with Simulation(seed) as simulation:
        drawn = draw(seed, simulation, promise)
        promised = drawn.promise
        simulation.network.speed = drawn.speed
        cluster = simulation.cluster(
            brokers=3, controllers=drawn.controllers, config=drawn.config, as_objects=drawn.as_objects
        )
        if seed % COLD_SEEDS == 0:
            for broker in cluster.brokers:
                broker.host.device.is_cold = partial(_is_cold, random.Random(seed))
        replicas = ReplicaRules(cluster, ledger, is_lossless=promised.is_lossless)
        rules = ClusterRules(simulation, cluster, ledger, replicas)
        simulation.check_after_each_event(rules.at_any_moment)
        simulation.check_every(LOOK_EVENTS, replicas.look)
        simulation.check_every(LOOK_EVENTS, SessionRules(cluster).look)
        simulation.check_every(LOOK_EVENTS, HeartbeatRules(cluster).look)
        simulation.check_every(LOOK_EVENTS, AccessRules(cluster).look)
        simulation.check_every(CHECK_EVENTS, rules.of_whole_logs)
        groups = ModernGroups(simulation, cluster, ledger, drawn.config, is_lossless=promised.is_lossless)
        scene = Scene(simulation, cluster, rules, ledger, History(simulation), groups, drawn)
        with slow_loading(drawn.loading_seconds):
            simulation.run(scenario(scene, outcome, seconds, promised.kinds(kinds)), seconds=10 * seconds + 600)
        rules.of_whole_logs()
        outcome.digest, outcome.events = simulation.trace.digest, simulation.timeline.events
        outcome.sends, outcome.transactions, outcome.shares = scene.history.counts
        shared = groups.shares.history
        outcome.deliveries, outcome.acknowledgements = shared.deliveries, shared.acknowledgements
        outcome.owned, outcome.tasks = groups.owned
        outcome.classic, outcome.excused = scene.history.classic, scene.history.excused
    outcome.operations, outcome.acknowledged = ledger.operations, ledger.acknowledged
    outcome.commits, outcome.topics, outcome.deleted = len(ledger.commits), len(ledger.topics), len(ledger.deleted)
    outcome.allowed, outcome.denied = ledger.checked[True], ledger.checked[False]
    outcome.promise = promised.name


def describe(seed: int, seconds: float) -> str:
    """Run a seed and return its result as a line."""
    outcome = run_seed(seed, seconds)
    return (
        f"{outcome.promise} {outcome.digest} {outcome.events} events, {outcome.operations} operations, "
        f"{outcome.faults} faults, {outcome.acknowledged} records, {outcome.commits} commits, {outcome.topics} topics, "
        f"{outcome.deleted} deleted, {outcome.sends} sends, {outcome.transactions} transactions "
        f"({outcome.classic} classic, {outcome.excused} excused), {outcome.shares} shares, "
        f"{outcome.deliveries} deliveries, {outcome.acknowledgements} acknowledgements, "
        f"{outcome.owned} owned, {outcome.tasks} tasks, {outcome.allowed} allowed, {outcome.denied} denied, "
        f"healed after {outcome.healed_seconds:.1f} s"
    )


if __name__ == "__main__":
    run_seeds(__doc__, describe, SECONDS)
