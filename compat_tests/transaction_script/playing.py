"""Player of a script: sends each request to both brokers, and compares their responses and what they have stored.

Kafka ends a transaction after its response; the next request waits until both brokers have written all markers, because
otherwise its outcome would depend on a race.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from compat_tests.differential.wire import Side
from compat_tests.harness.answers import Outcome, apart, codes
from compat_tests.harness.waiting import eventually
from compat_tests.transaction_script.scripts import (
    GROUPS,
    IDS,
    PARTITIONS,
    TIMESTAMP_MS,
    TOPICS,
    Known,
    Script,
    Step,
)
from kwire.coordinator.transaction.records import decode_transaction_record
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.records import decode_all, iterate_headers

NOT_READY = {14, 15, 16}
SETTLE_SECONDS = 5.0
NOT_COMPARED = {"throttle_time_ms", "error_message", "host", "port", "node_id", "leader_id", "session_id"}
TIMES = {"last_timestamp", "transaction_start_time_ms", "log_append_time_ms"}
ENDS = {"EndTxnRequest", "InitProducerIdRequest", "WriteTxnMarkersRequest"}


@dataclass(slots=True)
class Player:
    """Broker with the ids and epochs from its responses."""

    side: Side
    known: Known = field(default_factory=Known)
    names: dict[int, str] = field(default_factory=dict)
    """Names of producer ids, numbered in the order in which the ids appear."""

    def name_of(self, producer_id: int) -> str:
        return self.names.setdefault(producer_id, f"producer {len(self.names)}")

    def ask(self, request: Any, version: int) -> Any:
        return self.side.ask(request, version)

    def learn(self, step: Step, answer: Any) -> None:
        if not hasattr(answer, "producer_epoch") or answer.error_code or answer.producer_id < 0:
            return
        self.name_of(answer.producer_id)
        if step.transactional_id:
            self.known.producers[step.transactional_id] = answer.producer_id, answer.producer_epoch

    def plain(self, value: Any, name: str = "") -> Any:
        """Return the value without what may differ: order, times, messages, and the numbers of producer ids."""
        if name in NOT_COMPARED:
            return None
        if name in TIMES:
            return value >= 0
        if name == "timestamp" and value > TIMESTAMP_MS:
            return "when a marker was written"
        if name == "group_state" and value in ("Dead", "Empty"):
            return "nobody"  # Kafka shows a group without records only when something else is stored
        if name == "producer_id" and value >= 0:
            return self.name_of(value)
        if name == "records":
            return list(self._batches(value or b""))
        if isinstance(value, FetchPartitionData):
            # Transactions beyond the returned bytes differ: docs/differences.md.
            end = max((header.next_offset for _, header in iterate_headers(value.records or b"")), default=0)
            value.aborted_transactions = [each for each in value.aborted_transactions or () if each.first_offset < end]
        if is_dataclass(value):
            return {each.name: self.plain(getattr(value, each.name), each.name) for each in fields(value)}
        if isinstance(value, list):
            return sorted((self.plain(each) for each in value), key=lambda each: json.dumps(each, default=str))
        return value

    def _batches(self, data: bytes) -> Iterator[Any]:
        for position, header in iterate_headers(data):
            whole = bytes(data[position : position + header.size_in_bytes])
            yield (
                header.base_offset,
                header.attributes,
                self.name_of(header.producer_id) if header.producer_id >= 0 else "",
                header.producer_epoch,
                header.base_sequence,
                [(record.key, record.value) for record in decode_all(whole)],
            )


def play(kwire: str, kafka: str, seed: int, count: int, *, most: int, tell: Callable[[str], None] = print) -> Outcome:
    outcome = Outcome()
    players = [Player(Side(name=name, bootstrap=at)) for name, at in (("kwire", kwire), ("kafka", kafka))]
    for player in players:
        _prepare(player)
    script = Script(seed)
    while outcome.played < count and len(outcome.differences) < most:
        step = script.next()
        answers = [player.ask(step.build(player.known), step.version) for player in players]
        for player, answer in zip(players, answers, strict=True):
            player.learn(step, answer)
        outcome.played += 1
        outcome.without_error += not codes(answers[0])
        step.settled(answers[0])
        if step.transactional_id in players[0].known.producers:
            script.learned(step.transactional_id, players[0].known.producers[step.transactional_id][1])
        shown = [player.plain(answer) for player, answer in zip(players, answers, strict=True)]
        if shown[0] != shown[1]:
            request = step.build(players[0].known)
            text = f"step {step.number}, version {step.version}: {request}{''.join(apart(*shown))}"
            outcome.differences.append(text)
            tell(text)
        for player in players:
            _settle(player)
    outcome.differences += _stored(players)
    return outcome


def _prepare(player: Player) -> None:
    """Create the topics and wait until the coordinators are loaded."""
    topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in TOPICS]
    made = player.ask(CreateTopicsRequest(topics=topics), 7).topics
    assert not any(each.error_code for each in made), made

    def ready() -> bool:
        found = [
            each.error_code
            for kind, keys in ((0, GROUPS), (1, IDS))
            for each in player.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys)), 6).coordinators
        ]
        beats = [player.ask(HeartbeatRequest(group_id=group, member_id="n"), 3).error_code for group in GROUPS]
        described = player.ask(DescribeTransactionsRequest(transactional_ids=list(IDS)), 0).transaction_states
        topics = player.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]), 9).topics
        leaders = [each.leader_id for topic in topics for each in topic.partitions]
        producer = player.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)
        return (
            not any(found)
            and producer.error_code == ErrorCode.NONE
            and not {*beats, *(each.error_code for each in described)} & NOT_READY
            and len(leaders) == PARTITIONS * len(TOPICS)
            and min(leaders) >= 0
        )

    eventually(ready, f"the coordinators of {player.side.name}")


def _settle(player: Player) -> None:
    """Wait until no transaction is ending."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        states = player.ask(DescribeTransactionsRequest(transactional_ids=[*IDS, "unknown"]), 0).transaction_states
        if not any(each.transaction_state.startswith("Prepare") for each in states):
            return
    raise TimeoutError(f"a transaction of {player.side.name} does not end")


def _stored(players: list[Player]) -> list[str]:
    """Return the differences in the records of __transaction_state."""
    ours, theirs = ([*_states(player)] for player in players)
    return ["stored states" + "".join(apart(ours, theirs))] if ours != theirs else []


def _states(player: Player) -> Iterator[Any]:
    topic = "__transaction_state"
    found = player.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9).topics[0]
    assert found.error_code == ErrorCode.NONE
    for index in range(len(found.partitions)):
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 26, topics=[FetchTopic(topic=topic, partitions=[partition])]
        )
        data = player.ask(request, 11).responses[0].partitions[0].records or b""
        for record in decode_all(data):
            assert record.key is not None
            name, transaction = decode_transaction_record(record.key, record.value)
            assert transaction is not None
            yield (
                name,
                player.name_of(transaction.producer_id),
                transaction.producer_epoch,
                transaction.state.name,
                sorted(transaction.partitions),
                transaction.timeout_ms,
                transaction.client_version,
                transaction.start_ms >= 0,
            )
