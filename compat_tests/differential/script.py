"""Seeded script: a sequence of requests, each with its version and its connection."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compat_tests.differential import (
    rules_of_groups,
    rules_of_records,
    rules_of_the_cluster,
    rules_of_topics,
)
from compat_tests.differential.batches import spoils_the_request
from compat_tests.differential.drawing import draw
from compat_tests.differential.lazy import Known, Made, shown
from compat_tests.differential.odd_orders import SCENES
from compat_tests.differential.random_source import INT32, NO_ID, TOPICS, RandomSource
from compat_tests.differential.rules_of_records import BYTES_FOR_A_PART, BYTES_FOR_ALL
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kwire.protocol.records import NO_PRODUCER_ID
from kwire.server.apis import SERVED
from kwire.server.requests.api import Api

SLOTS = 4
SLOT_OF_TELEMETRY = SLOTS
"""Connection that stays open: Kafka forgets a telemetry client when its connection closes."""
TELEMETRY = {"GetTelemetrySubscriptionsRequest", "PushTelemetryRequest"}
TRANSACTIONAL_PRODUCER = 9_100_000
"""Id of a producer that only writes transactions."""
BROKER = 4
RESOURCE_TYPES = (2, 4, 8, 16, 32)
THE_ONLY_BROKER = 1
TOPIC_IDS_SINCE = 13
SESSIONLESS_EPOCH = -1
RULES = rules_of_topics.RULES | rules_of_groups.RULES | rules_of_the_cluster.RULES | rules_of_records.RULES

OFTEN = {
    ApiKey.PRODUCE: 60,
    ApiKey.FETCH: 40,
    ApiKey.LIST_OFFSETS: 14,
    ApiKey.METADATA: 14,
    ApiKey.OFFSET_COMMIT: 14,
    ApiKey.OFFSET_FETCH: 14,
    ApiKey.JOIN_GROUP: 12,
    ApiKey.SYNC_GROUP: 10,
    ApiKey.HEARTBEAT: 10,
    ApiKey.LEAVE_GROUP: 8,
    ApiKey.DESCRIBE_GROUPS: 8,
    ApiKey.CREATE_TOPICS: 10,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 8,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 6,
    ApiKey.DESCRIBE_CONFIGS: 8,
    ApiKey.INIT_PRODUCER_ID: 8,
}
USUALLY = 3
SLOW_MOST = 3
"""Maximum number of requests, of each kind, that keep Kafka busy for seconds."""
MANY_TRANSACTIONS_SINCE = 4
SCENE_SHARE = 0.04
BROKEN_SHARE = 0.01
UNKNOWN_KEYS = (4, 5, 6, 7, 93, 500, -1, 32767)


@dataclass(slots=True, kw_only=True)
class Step:
    number: int
    slot: int
    request: Any
    version: int
    breakage: str = ""
    """Fault of the frame: cut, longer, version, key; empty for a correct frame."""
    amount: int = 0

    def __str__(self) -> str:
        broken = f" [{self.breakage} {self.amount}]" if self.breakage else ""
        return f"step {self.number}, connection {self.slot}, version {self.version}{broken}: {shown(self.request)}"


def script(seed: int, count: int) -> list[Step]:
    """Return the steps: first create topics, then each version of each API once, then random requests."""
    random_source = RandomSource(seed)
    steps: list[Step] = []
    slow: Counter[str] = Counter()
    for request, version in _requests(random_source):
        if len(steps) == count:
            break
        if _is_slow(request, version):
            slow[type(request).__name__] += 1
            if slow[type(request).__name__] > SLOW_MOST:
                continue
        random_source.step = len(steps)
        steps.append(_step(random_source, len(steps), request, version))
    return steps


def _is_slow(request: Any, version: int) -> bool:
    """Return True if Kafka never answers, or if its controller fails over the request and takes seconds to recover."""
    if isinstance(request, AddPartitionsToTxnRequest):
        return version >= MANY_TRANSACTIONS_SINCE and not request.transactions
    if isinstance(request, WriteTxnMarkersRequest):
        return len({str(marker.producer_id) for marker in request.markers}) < len(request.markers)
    if isinstance(request, IncrementalAlterConfigsRequest):
        return _has_an_unknown_operation(request)
    return False


def _has_an_unknown_operation(request: IncrementalAlterConfigsRequest) -> bool:
    return any(change.config_operation not in range(4) for each in request.resources for change in each.configs)


def _step(random_source: RandomSource, number: int, request: Any, version: int) -> Step:
    step = Step(number=number, slot=random_source.randrange(SLOTS), request=request, version=version)
    if number > 500 and random_source.often(BROKEN_SHARE):
        step.breakage = random_source.one_of((5, "cut"), (2, "longer"), (2, "version"), (1, "key"))
        step.amount = (
            random_source.choice(UNKNOWN_KEYS) if step.breakage == "key" else random_source.choice((1, 2, 5, 90))
        )
    if type(request).__name__ in TELEMETRY:
        step.slot, step.breakage = SLOT_OF_TELEMETRY, ""
    return step


def _requests(random_source: RandomSource) -> Iterator[tuple[Any, int]]:
    topics = [
        CreatableTopic(name=name, num_partitions=1 + index % 3, replication_factor=1)
        for index, name in enumerate(TOPICS[:6])
    ]
    yield CreateTopicsRequest(topics=topics), 7
    every = [(api, version) for api in SERVED for version in range(api.min_version, api.max_version + 1)]
    random_source.shuffle(every)
    for api, version in every:
        yield _drawn(api, version, random_source), version
    weights = [OFTEN.get(api.key, USUALLY) for api in SERVED]
    while True:
        if random_source.often(SCENE_SHARE):
            yield from random_source.choice(SCENES)(random_source)
            continue
        (api,) = random_source.choices(SERVED, weights)
        version = _version(random_source, api)
        yield _drawn(api, version, random_source), version


def _drawn(api: Api, version: int, random_source: RandomSource) -> Any:
    request = draw(api.request, version, random_source, RULES)
    if api.key == ApiKey.PRODUCE:
        _leave_spoiling_alone(request)
        _leave_producers_out_of_transactions(request)
        if version >= TOPIC_IDS_SINCE:
            _name_topics_once(request)
    elif api.key == ApiKey.CREATE_TOPICS:
        _leave_beyond_counting_alone(request)
    elif api.key == ApiKey.UNREGISTER_BROKER and request.broker_id == THE_ONLY_BROKER:
        request.broker_id += 1  # otherwise Kafka's partitions would lose their only leader
    elif api.key in (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER):
        request.cluster_id = "another"  # an invalid cluster id leaves the voters unchanged
    elif api.key == ApiKey.METADATA:
        _leave_nameless_alone(request)
    elif api.key == ApiKey.CREATE_PARTITIONS:
        _leave_what_has_no_room(request)
    elif api.key == ApiKey.WRITE_TXN_MARKERS:
        _leave_nobody_alone(request)
    elif api.key == ApiKey.FETCH:
        _leave_parts_out_of_sessions(request)
    elif api.key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        _leave_unknown_operations_alone(request)
    elif api.key == ApiKey.ALTER_CONFIGS:
        request.resources = [each for each in request.resources if not _is_all_brokers(each)]
        _leave_one_unknown_by_a_name(request)
    return request


def _leave_spoiling_alone(request: Any) -> None:
    """Give a batch that spoils the request its own request: kwire stores the other batches, Kafka does not."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if spoils_the_request(data.records):
                topic.partition_data = [data]
                request.topic_data = [topic]
                return


def _leave_producers_out_of_transactions(request: Any) -> None:
    """Use a separate producer id in transactions: Kafka remembers the sequences of transactions that it rejects."""
    if request.transactional_id is None:
        return
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, Made) and "producer_id" in data.records.values:
                data.records.values["producer_id"] = TRANSACTIONAL_PRODUCER


def _name_topics_once(request: Any) -> None:
    """Name each topic once: of two batches for one partition kwire stores both, Kafka the last. Unknown ids repeat."""
    once: dict[object, Any] = {}
    for topic in request.topic_data:
        is_known = isinstance(topic.topic_id, Known)
        once.setdefault(topic.topic_id.key[1] if is_known else id(topic), topic)
    request.topic_data = list(once.values())


def _leave_beyond_counting_alone(request: Any) -> None:
    """Give the largest partition count its own request: a sum with other counts overflows, and Kafka accepts it."""
    for topic in request.topics:
        if topic.num_partitions == INT32[1]:
            request.topics = [topic]
            return


def _leave_nameless_alone(request: Any) -> None:
    """Give a topic with neither name nor id its own request: Kafka fails, and later never creates the other topics."""
    for topic in request.topics or ():
        if topic.name is None and topic.topic_id == NO_ID:
            request.topics = [topic]
            return


def _leave_what_has_no_room(request: Any) -> None:
    """Replace the largest partition count by 0: Kafka lists all partitions before it checks the number, and fails."""
    for topic in request.topics:
        if topic.count == INT32[1]:
            topic.count = 0


def _leave_nobody_alone(request: Any) -> None:
    """Give a marker with id or epoch -1 its own request: Kafka fails and omits later markers. It stores lower ids."""
    for marker in request.markers:
        marker.producer_id = max(marker.producer_id, NO_PRODUCER_ID)
        if NO_PRODUCER_ID in (marker.producer_id, marker.producer_epoch):
            request.markers = [marker]
            return


def _leave_parts_out_of_sessions(request: Any) -> None:
    """Avoid partial batches in sessions: Kafka sends a part where kwire sends a partition, which changes the order."""
    if request.session_epoch != SESSIONLESS_EPOCH and request.max_bytes == BYTES_FOR_A_PART:
        request.max_bytes = BYTES_FOR_ALL


def _leave_unknown_operations_alone(request: Any) -> None:
    """Give an unknown operation its own request: Kafka fails the whole request."""
    for resource in request.resources:
        if any(config.config_operation not in range(4) for config in resource.configs):
            request.resources = [resource]
            return


def _leave_one_unknown_by_a_name(request: Any) -> None:
    """Avoid two resources of unknown types with the same name: Kafka sends no response."""
    once: dict[object, Any] = {}
    for resource in request.resources:
        kind = resource.resource_type if resource.resource_type in RESOURCE_TYPES else None
        once.setdefault((kind, resource.resource_name), resource)
    request.resources = list(once.values())


def _is_all_brokers(resource: Any) -> bool:
    """Return True for the configurations of all brokers: a full replacement unsets Kafka's min.insync.replicas."""
    return bool(resource.resource_type == BROKER and resource.resource_name == "")


def _version(random_source: RandomSource, api: Api) -> int:
    return api.max_version if random_source.often(0.25) else random_source.randint(api.min_version, api.max_version)
