"""Runner of the transaction scripts: it runs the commands of a script and returns their observed results.

A script opens with comments. A line that begins with ">" is a command; the lines up to the next one are all results of
it, in order. Producers have names; each remembers its producer id, epoch and sequence numbers, which producer= and
epoch= replace for one request. All have the transactional id x unless id= says otherwise. version= sets the version of
a request; the default is the newest one, whose epochs change with each transaction.

    > init p timeout=60000            InitProducerId; "keep" sends the current producer id and epoch
    > add p t-0 t-1                   AddPartitionsToTxn of a client (version=3); of a broker with version=5
    > verify p t-0                    AddPartitionsToTxn that only verifies
    > produce p t-0 v                 others: version= acks= sequence=
    > add-offsets p g                 AddOffsetsToTxn
    > commit-offsets p g t-0=5        TxnOffsetCommit; others: generation= member= metadata=
    > fetch-offsets g t-0             OffsetFetch; "stable" requires stable offsets
    > commit p, abort p               EndTxn
    > marker p t-0 commit             WriteTxnMarkers; coordinator-epoch= transaction-version=
    > show t-0                        the partition's end, last stable offset and aborted transactions
    > describe x, list                DescribeTransactions; ListTransactions with states= producers= longer= pattern=
    > records                         records appended since the last query
    > wait 3000                       milliseconds pass
    > restart                         all components stop and load their logs again
    > reload                          the coordinator's state is loaded again, as after a broken invariant
    > reject-appends t-0, allow-appends t-0
    > hold-flushes, release-flushes   nothing becomes durable in between
    > delete-topic t
    > epoch p 32766                   sets that epoch at once, by a record in the log; only without an open transaction
    > config timeout_max_ms=1000 transaction_version=2 verifies=1
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from kwire.coordinator.shard import Write
from kwire.coordinator.transaction.records import TransactionRecord
from kwire.coordinator.transaction.states import STATE_NAMES
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.protocol.produce_exchange import ProducedPartition, ProducedTopic, ProduceExchange
from kwire.server.apis.records import produce
from kwire.server.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from kwire.server.network.pending import CloseConnection
from tests.coordinator.transaction_world import TransactionWorld
from tests.log.searching import aborted_transactions
from tests.log.support import batch

Options = dict[str, str]
OFFSETS = ("t-", "u-")
"""Prefixes of arguments that are offsets to commit, and no options."""


class Client:
    """Producer's own state."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.transactional_id = "x"
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    def becomes(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch


class ScriptRunner:
    """State of a running script and its observed results."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.world = TransactionWorld(directory, loop)
        self._clients: dict[str, Client] = {}
        self._seen: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_started = False

    async def run(self, command: str) -> list[str]:
        """Run the command of a line and return all results."""
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word and word[:2] not in OFFSETS)
        names = [word for word in words if "=" not in word or word[:2] in OFFSETS]
        if verb == "config":
            self._configure(options)
            return []
        if not self.is_started:
            self.is_started = True
            await self.world.start()
        outcome: Coroutine[Any, Any, None] | None = getattr(self, "_" + verb.replace("-", "_"))(names, options)
        if outcome is not None:
            await outcome
        await settle()
        seen, self._seen = self._seen, []
        return seen

    def stop(self) -> None:
        if self.is_started:
            self.world.stop()

    def _configure(self, options: Options) -> None:
        assert not self.is_started
        settings = {key: int(value) for key, value in options.items()}
        self.world.version = settings.pop("transaction_version", self.world.version)
        self.world.verifies = bool(settings.pop("verifies", True))
        self.world.config = dataclasses.replace(self.world.config, **settings)

    # --- beginning

    def _init(self, names: list[str], options: Options) -> None:
        client = self._client(names[0])
        client.transactional_id = options.get("id", client.transactional_id)
        producer_id, epoch = self._identity(client, options) if "keep" in names else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=client.transactional_id,
            transaction_timeout_ms=int(options.get("timeout", "60000")),
            producer_id=producer_id,
            producer_epoch=epoch,
        )

        def seen(answer: Any) -> None:
            if answer.error_code:
                self._see(f"{client.name} init: {_code(answer.error_code)}")
                return
            client.becomes(answer.producer_id, answer.producer_epoch)
            self._see(f"{client.name} init: producer {answer.producer_id} epoch {answer.producer_epoch}")

        self._when(self.world.ask(init_producer_id.API, request, _version(options, 5)), seen)

    def _add(self, names: list[str], options: Options, *, verify: bool = False) -> None:
        client = self._client(names[0])
        version = _version(options, 5 if verify else 3)
        producer_id, epoch = self._identity(client, options)
        topics = [AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in _by_topic(names[1:])]
        transactional_id = options.get("id", client.transactional_id)
        if version >= add_partitions_to_txn.MANY_SINCE:
            asked = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[asked])
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )

        def seen(answer: Any) -> None:
            topics = [topic for each in answer.results_by_transaction for topic in each.topic_results]
            topics += answer.results_by_topic_v3_and_below
            codes = [_code(each.partition_error_code) for topic in topics for each in topic.results_by_partition]
            self._see(f"{client.name} {'verify' if verify else 'add'}: {' '.join(codes)}")

        self._when(self.world.ask(add_partitions_to_txn.API, request, version), seen)

    def _verify(self, names: list[str], options: Options) -> None:
        self._add(names, options, verify=True)

    # --- writing

    def _produce(self, names: list[str], options: Options) -> None:
        client, where, value = self._client(names[0]), names[1], names[2]
        producer_id, epoch = self._identity(client, options)
        sequence = int(options.get("sequence", client.sequences.get(where, 0)))
        if "sequence" not in options:
            client.sequences[where] = sequence + 1
        records = batch(
            value.encode(),
            timestamp=self.world.clock.wall_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence,
            transactional=True,
        )
        exchange = ProduceExchange(options.get("id", client.transactional_id), int(options.get("acks", "-1")), 5000)
        topic, _, index = where.rpartition("-")
        exchange.topics.append(ProducedTopic(topic, None))
        data = ProducedPartition(int(index), bytes(records))
        exchange.topics[0].partitions.append(data)

        async def asked() -> Any:
            try:
                return await self.world.ask(produce.API, exchange, _version(options, 12))
            except CloseConnection:
                return "the connection is closed"

        def seen(answer: Any) -> None:
            if answer is not exchange:
                self._see(f"{client.name} produce {value}: {answer or 'no answer'}")
                return
            if data.error_code and "sequence" not in options:
                client.sequences[where] = sequence  # the batch may be sent again
            reported = _code(data.error_code) if data.error_code else f"offset {data.base_offset}"
            self._see(f"{client.name} produce {value}: {reported}")

        self._when(asked(), seen)

    def _add_offsets(self, names: list[str], options: Options) -> None:
        client = self._client(names[0])
        producer_id, epoch = self._identity(client, options)
        request = AddOffsetsToTxnRequest(
            transactional_id=client.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=names[1]
        )

        def seen(answer: Any) -> None:
            self._see(f"{client.name} add-offsets: {_code(answer.error_code)}")

        self._when(self.world.ask(add_offsets_to_txn.API, request, _version(options, 4)), seen)

    def _commit_offsets(self, names: list[str], options: Options) -> None:
        client = self._client(names[0])
        producer_id, epoch = self._identity(client, options)
        topics = []
        for name in names[2:]:
            where, offset = name.split("=")
            topic, _, index = where.rpartition("-")
            partition = TxnOffsetCommitRequestPartition(
                partition_index=int(index), committed_offset=int(offset), committed_metadata=options.get("metadata")
            )
            topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=[partition]))
        request = TxnOffsetCommitRequest(
            transactional_id=client.transactional_id,
            group_id=names[1],
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=int(options.get("generation", "-1")),
            member_id=options.get("member", ""),
            topics=topics,
        )

        def seen(answer: Any) -> None:
            codes = [_code(each.error_code) for topic in answer.topics for each in topic.partitions]
            self._see(f"{client.name} commit-offsets: {' '.join(codes)}")

        self._when(self.world.ask(txn_offset_commit.API, request, _version(options, 5)), seen)

    def _fetch_offsets(self, names: list[str], options: Options) -> None:
        asked = [
            OffsetFetchRequestTopics(name=name, partition_indexes=found)
            for name, found in _by_topic(each for each in names[1:] if each != "stable")
        ]

        def seen(group: Any) -> None:
            for topic in group.topics:
                for each in topic.partitions:
                    reported = _code(each.error_code) if each.error_code else str(each.committed_offset)
                    self._see(f"{topic.name}-{each.partition_index}: {reported}")

        request = OffsetFetchRequestGroup(group_id=names[0], topics=asked)
        self._when(self.world.groups.fetch_offsets(request, require_stable="stable" in names), seen)

    # --- ending

    def _commit(self, names: list[str], options: Options) -> None:
        self._end(names, options, is_commit=True)

    def _abort(self, names: list[str], options: Options) -> None:
        self._end(names, options, is_commit=False)

    def _end(self, names: list[str], options: Options, *, is_commit: bool) -> None:
        client = self._client(names[0])
        producer_id, epoch = self._identity(client, options)
        request = EndTxnRequest(
            transactional_id=options.get("id", client.transactional_id),
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=is_commit,
        )

        def seen(answer: Any) -> None:
            reported = _code(answer.error_code)
            if not answer.error_code and answer.producer_id >= 0:
                reported = f"goes on as producer {answer.producer_id} epoch {answer.producer_epoch}"
                client.becomes(answer.producer_id, answer.producer_epoch)
            self._see(f"{client.name} {'commit' if is_commit else 'abort'}: {reported}")

        self._when(self.world.ask(end_txn.API, request, _version(options, 5)), seen)

    def _marker(self, names: list[str], options: Options) -> None:
        client = self._client(names[0])
        producer_id, epoch = self._identity(client, options)
        topics = [WritableTxnMarkerTopic(name=name, partition_indexes=found) for name, found in _by_topic(names[1:-1])]
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=names[-1] == "commit",
            topics=topics,
            coordinator_epoch=int(options.get("coordinator-epoch", "0")),
            transaction_version=int(options.get("transaction-version", "2")),
        )

        def seen(answer: Any) -> None:
            results = [topic for each in answer.markers for topic in each.topics]
            codes = [_code(each.error_code) for topic in results for each in topic.partitions]
            self._see(f"marker: {' '.join(codes)}")

        request = WriteTxnMarkersRequest(markers=[marker])
        self._when(self.world.ask(write_txn_markers.API, request, _version(options, 2)), seen)

    # --- queries

    def _show(self, names: list[str], _: Options) -> None:
        for name in names:
            partition = self.world.partition(name)
            log = partition.log
            text = f"{name}: end {log.log_end_offset} stable {partition.end_offset(1)}"
            for each in aborted_transactions(log, 0, log.log_end_offset):
                text += f" aborted {each.producer_id} {each.first_offset}..{each.last_offset}"
            self._see(text)

    def _describe(self, names: list[str], _: Options) -> None:
        def seen(answer: Any) -> None:
            for each in answer.transaction_states:
                if each.error_code:
                    self._see(f"{each.transactional_id}: {_code(each.error_code)}")
                    continue
                found = sorted(f"{topic.topic}-{index}" for topic in each.topics for index in topic.partitions)
                self._see(
                    f"{each.transactional_id}: {each.transaction_state} producer {each.producer_id} "
                    f"epoch {each.producer_epoch} {','.join(found)}".rstrip()
                )

        request = DescribeTransactionsRequest(transactional_ids=names)
        self._when(self.world.ask(describe_transactions.API, request, 0), seen)

    def _list(self, _: list[str], options: Options) -> None:
        request = ListTransactionsRequest(
            state_filters=options["states"].split(",") if "states" in options else [],
            producer_id_filters=[int(each) for each in options["producers"].split(",")]
            if "producers" in options
            else [],
            duration_filter=int(options.get("longer", "-1")),
            transactional_id_pattern=options.get("pattern"),
        )

        def seen(answer: Any) -> None:
            if answer.error_code:
                self._see(f"list: {_code(answer.error_code)}")
            if answer.unknown_state_filters:
                self._see(f"unknown: {' '.join(answer.unknown_state_filters)}")
            for each in answer.transaction_states:
                self._see(f"{each.transactional_id} {each.transaction_state} producer {each.producer_id}")

        self._when(self.world.ask(list_transactions.API, request, 2), seen)

    def _records(self, _: list[str], __: Options) -> None:
        for record in self.world.new_records():
            self._see(_described(record))

    # --- world

    async def _wait(self, names: list[str], _: Options) -> None:
        await asyncio.sleep(int(names[0]) / 1000)

    async def _restart(self, _: list[str], __: Options) -> None:
        self.world.stop()
        await settle()
        await self.world.start()

    def _reload(self, _: list[str], __: Options) -> None:
        runtime = self.world.transactions._runtime
        runtime._reload(runtime.active(0))

    def _reject_appends(self, names: list[str], _: Options) -> None:
        self.world.reject_appends(names[0], reject=True)

    def _allow_appends(self, names: list[str], _: Options) -> None:
        self.world.reject_appends(names[0], reject=False)

    def _hold_flushes(self, _: list[str], __: Options) -> None:
        self.world.workers.hold()

    def _release_flushes(self, _: list[str], __: Options) -> None:
        self.world.workers.release()

    def _delete_topic(self, names: list[str], _: Options) -> None:
        self.world.delete_topic(names[0])

    async def _epoch(self, names: list[str], _: Options) -> None:
        client = self._client(names[0])
        shard = self.world.transactions._runtime.active(0)
        transaction = shard.machine.transactions[client.transactional_id]
        moved = dataclasses.replace(transaction, producer_epoch=int(names[1]), last_producer_epoch=-1)
        answer = shard.write(Write(answer=None, records=[TransactionRecord(client.transactional_id, moved)]))
        if answer is not None:
            await answer
        client.becomes(client.producer_id, int(names[1]))

    # --- observations

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    @staticmethod
    def _identity(client: Client, options: Options) -> tuple[int, int]:
        return int(options.get("producer", client.producer_id)), int(options.get("epoch", client.epoch))

    def _see(self, text: str) -> None:
        self._seen.append(text)

    def _when(self, answer: Awaitable[Any] | Any, seen: Callable[[Any], None]) -> None:
        """Record the response now or when it arrives."""
        if not isinstance(answer, Awaitable):
            seen(answer)
            return

        async def wait() -> None:
            seen(await answer)

        task = asyncio.ensure_future(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _version(options: Options, newest: int) -> int:
    return int(options.get("version", newest))


def _by_topic(names: Any) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for name in names:
        topic, _, index = name.rpartition("-")
        found.setdefault(topic, []).append(int(index))
    return list(found.items())


def _code(code: int) -> str:
    return ErrorCode(code).name


def _described(record: TransactionRecord) -> str:
    transactional_id, transaction = record
    if transaction is None:
        return f"{transactional_id} tombstone"
    text = f"{transactional_id} {STATE_NAMES[transaction.state]} {transaction.producer_id}/{transaction.producer_epoch}"
    if transaction.previous_producer_id != transaction.producer_id:
        text += f" after {transaction.previous_producer_id}"
    if transaction.next_producer_id >= 0:
        text += f" before {transaction.next_producer_id}"
    return f"{text} {','.join(f'{topic}-{index}' for topic, index in sorted(transaction.partitions))}".rstrip()


async def settle() -> None:
    """Let the loop run until nothing more happens at the current time."""
    for _ in range(30):
        await asyncio.sleep(0)
