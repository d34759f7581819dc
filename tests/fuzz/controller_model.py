"""Plans of the controller against a few sets: brokers that register, stop and are fenced, and the allowed plans.

Rules of partitions are those of tests/cluster/controller/test_invariants.py. In addition:

- create: a topic can have a replica on each registered broker that is not in controlled shutdown, or is fenced; no
  other broker gets one
- features: a level is set if and only if every registered broker supports it
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kwire.chunks import at_once
from kwire.cluster.controller.plans.features import FeatureUpdate, plan_features
from kwire.cluster.controller.plans.topics import NewTopic, TopicDefaults, plan_topic
from kwire.cluster.metadata.features import TRANSACTION_VERSION, TRANSACTION_VERSION_LEVEL
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages import metadata_records as records
from tests.cluster.controller.support import CONTROLLER, broker_record
from tests.cluster.controller.test_invariants import BROKERS, EVENTS, World
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.log.support import FixedChance

DEFAULTS: Final = TopicDefaults(num_partitions=1, replication_factor=1)
UPGRADE, SAFE_DOWNGRADE = 1, 2


def _supports(level: int) -> list[records.BrokerFeature]:
    return [records.BrokerFeature(name=TRANSACTION_VERSION, min_supported_version=0, max_supported_version=level)]


class ControllerModel:
    """Model of the controller's plans."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._levels: dict[int, int] = {}
        """Maximum transaction.version of each registered broker."""
        self._stopping: set[int] = set()
        """Brokers in controlled shutdown that are not fenced yet."""

    def close(self) -> None:
        pass

    def _begin(self, choice: int) -> World:
        world = World(elr=bool(choice & 1), unclean=bool(choice & 2), min_insync=1 + choice // 4 % 3)
        for broker in BROKERS:
            self._register(world, broker, TRANSACTION_VERSION_LEVEL, fenced=False)
        return world

    def _register(self, world: World, broker: int, level: int, *, fenced: bool) -> None:
        world.take([broker_record(broker, directories=2, fenced=fenced, features=_supports(level))])
        self._levels[broker] = level
        self._stopping.discard(broker)

    def do(self, operation: Operation) -> None:
        if self._world is None:
            self._world = self._begin(operation.c)
        getattr(self, operation.name)(self._world, operation.a, operation.b)

    def finish(self) -> None:
        if self._world is not None:
            self.create(self._world, 0, 0)
            self._world.settle()

    # --- operations

    def event(self, world: World, a: int, b: int) -> None:
        """Run a random event of a broker or a partition."""
        event, who = EVENTS[a % len(EVENTS)], 1 + b % len(BROKERS)
        before = world.view.image.brokers.get(who)
        event(world, who, b // 8 % 32)
        if event is World.start:
            self._register(world, who, b // 256 % (TRANSACTION_VERSION_LEVEL + 1), fenced=True)
        elif event is World.forget:
            self._levels.pop(who, None)
            self._stopping.discard(who)
        elif event is World.fence:
            self._stopping.discard(who)
        elif event is World.stop and before is not None and not before.fenced:
            self._stopping.add(who)

    def create(self, world: World, a: int, b: int) -> None:
        """Create a topic with the maximum number of replicas."""
        usable = set(self._levels) - self._stopping
        if all(world.view.image.brokers[broker].fenced for broker in usable):
            return  # a topic needs a leader
        planned = self._plan_topic(world, len(usable))
        assert planned is not None, f"create: not on all of {usable}"
        replicas = {
            broker for record in planned if isinstance(record, records.PartitionRecord) for broker in record.replicas
        }
        assert replicas == usable, f"create: on {replicas}, not on {usable}"
        assert self._plan_topic(world, len(usable) + 1) is None, f"create: more replicas than {usable}"

    def _plan_topic(self, world: World, replicas: int) -> list[Any] | None:
        requested = NewTopic(name="new", num_partitions=1, replication_factor=replicas, configs={})
        image, topic_id = world.view.image, UUID(int=77)
        try:
            planned, _ = at_once(
                plan_topic(image, requested, topic_id=topic_id, defaults=DEFAULTS, random_source=FixedChance())
            )
        except KafkaError as error:
            assert error.code == ErrorCode.INVALID_REPLICATION_FACTOR, f"create: {error}"
            return None
        return planned

    def set_feature(self, world: World, a: int, b: int) -> None:
        """Request a level of transaction.version."""
        level = a % (TRANSACTION_VERSION_LEVEL + 1)
        image = world.view.image
        present = image.features.get(TRANSACTION_VERSION, 0)
        kind = UPGRADE if level >= present else SAFE_DOWNGRADE
        update = FeatureUpdate(name=TRANSACTION_VERSION, level=level, upgrade_type=kind)
        can = all(most >= level for most in self._levels.values())
        try:
            planned = plan_features(image, [update], controller_id=CONTROLLER)
        except KafkaError as error:
            assert error.code == ErrorCode.INVALID_UPDATE_VERSION, f"features: {error}"
            assert not can, f"features: level {level} is rejected, and all of {self._levels} support it"
            return
        assert can, f"features: level {level} is set, and brokers support {self._levels}"
        world.take(planned)


CONTROLLER_FUZZER: Final = Fuzzer(
    "controller", ControllerModel, {"event": 12, "create": 4, "set_feature": 3}, steps=40, seeds=60
)
