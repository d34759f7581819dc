"""Produce: append record batches to partitions led by this broker.

The handler appends all batches before it waits for anything, so that the batches of one connection reach their
partitions in the order in which they were sent. The exception is the first batch of a transaction in a partition. It
waits for the verification of the transaction, and later batches of its producer wait behind it
(kwire.coordinator.transaction.verifier). A request with many batches, or with a batch that takes long to validate, is
appended in steps. Then later requests of its connection wait until it is answered.

The response waits for the verification, for the flush that flush.messages requires, and with acks=all for the in-sync
replicas. With acks=0 there is no response. If an append with acks=0 fails, the connection is closed, because the client
can receive no error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from librt.strings import read_i32_be

from kwire.chunks import Steps, in_turns
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.security.acls import ResourceType
from kwire.cluster.topic_names import INTERNAL_TOPICS
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.verifier import TransactionClaim, UnverifiedBatch
from kwire.log.batch_opening import PACKED_AT_ONCE_BYTES_MAX
from kwire.log.batch_validation import Validated, ValidatedBatch, check_frame, needs_steps, validate_in_steps
from kwire.log.disk import DiskFailure
from kwire.protocol.compression import Codec
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.produce import ProduceRequest, ProduceResponse
from kwire.protocol.produce_exchange import (
    ATTRIBUTES_LOW_BYTE_POSITION,
    ProducedPartition,
    ProducedTopic,
    ProduceExchange,
    exchange_decoder,
    exchange_framer,
    exchange_pieces_framer,
)
from kwire.protocol.records import BATCH_HEADER_BYTES, CODEC_MASK, NO_PRODUCER_ID, TRANSACTIONAL_FLAG, BatchHeader
from kwire.seams import Clock
from kwire.server.network.pending import CloseConnection
from kwire.server.requests.api import Api, HandWrittenCodec
from kwire.server.requests.context import RequestContext
from kwire.server.requests.current_leaders import current_leader, node_endpoint
from kwire.server.requests.delayed_produce import Append, DelayedProduce, VerifiedProduce

logger = logging.getLogger(__name__)

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Client id that may write to internal topics."""
ZSTD_SINCE: Final = 7
ABORTABLE_SINCE: Final = 11
ADDS_TO_TRANSACTION_SINCE: Final = 12
RECORD_COUNT_POSITION: Final = 57
"""Position of the number of records in a batch, four bytes."""
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Errors that Kafka returns without the log start offset; all other errors of an existing partition have it."""
_ACKS: Final = (-1, 0, 1)
APPENDED_AT_ONCE: Final = 128
"""Batches that are appended in one step of the event loop."""
RECORDS_AS_BATCH: Final = 32
"""Uncompressed records that count as one more batch: reading them takes about as long as appending a batch."""
Unverified = tuple[Partition, ProducedPartition, BatchHeader, Validated | None]
"""Batch that begins its transaction in a partition, with the result of its validation in steps."""
Appended = tuple[list[Append], list[Unverified]]
"""Result of a request's appends: those whose response is delayed, and batches that wait for verification."""


class _FencedError(KafkaError):
    """Error of a batch with an old producer epoch, checked before others. As in Kafka it has no log start offset."""


def handle_produce(
    exchange: ProduceExchange, context: RequestContext
) -> ProduceExchange | Awaitable[ProduceExchange | None] | None:
    """Append every batch; its result is stored in its part of the exchange."""
    rejected = None
    if exchange.transactional_id is not None or exchange.acks not in _ACKS:
        rejected = _rejection(exchange, context)
    is_quick = exchange.is_small and not exchange.codecs
    if rejected is None and not is_quick and _takes_long(exchange, context):
        return _begin_steps(exchange, context)
    waiting: list[Append] = []
    unverified: list[Unverified] = []
    for topic in exchange.topics:
        name, why = _resolve(topic, context, rejected)
        for data in topic.partitions:
            if why is None:
                _append(name, data, exchange, context, waiting, unverified)
            else:
                _reject(data, why)
    return _answer(exchange, waiting, unverified, context)


def _answer(
    exchange: ProduceExchange, waiting: list[Append], unverified: list[Unverified], context: RequestContext
) -> ProduceExchange | Awaitable[ProduceExchange | None] | None:
    answer: Awaitable[ProduceExchange] | None = None
    if unverified:
        answer = _verify(exchange, unverified, waiting, context)
    if exchange.acks == 0:
        if answer is not None:
            return _unanswered(answer)
        _close_on_error(exchange.topics)
        return None
    if answer is not None:
        return answer
    if waiting:
        return DelayedProduce(exchange, waiting, context.services.partitions).future
    return exchange


def _takes_long(exchange: ProduceExchange, context: RequestContext) -> bool:
    """Return True if the appends may take longer than one step of the event loop.

    A batch needs validation in steps, or there are many batches or records.
    """
    work = 0
    for topic in exchange.topics:
        for data in topic.partitions:
            records = data.records
            if records is None or len(records) < BATCH_HEADER_BYTES:
                work += 1
                continue
            # A small uncompressed batch is validated, and compressed for the topic, in one step.
            may_need_steps = (
                records[ATTRIBUTES_LOW_BYTE_POSITION] & CODEC_MASK or len(records) > PACKED_AT_ONCE_BYTES_MAX
            )
            if may_need_steps and _is_long(_partition_of(topic, data, context), data, context.services.clock):
                return True
            work += _work(records)  # exceeds the limit for very many uncompressed records
    return work > APPENDED_AT_ONCE


def _work(records: bytes) -> int:
    """Return the cost of an append, in small batches: 1, plus 1 for each RECORDS_AS_BATCH uncompressed records."""
    record_count: int = read_i32_be(records, RECORD_COUNT_POSITION)
    if record_count < RECORDS_AS_BATCH or records[ATTRIBUTES_LOW_BYTE_POSITION] & CODEC_MASK:
        return 1
    return 1 + record_count // RECORDS_AS_BATCH


def _is_long(partition: Partition | None, data: ProducedPartition, clock: Clock) -> bool:
    return (
        partition is not None
        and partition.is_led
        and data.records is not None
        and needs_steps(data.records, partition.log.config, clock.wall_ms())
    )


def _partition_of(topic: ProducedTopic, data: ProducedPartition, context: RequestContext) -> Partition | None:
    name = topic.name if topic.topic_id is None else context.services.image.topic_names.get(topic.topic_id, "")
    return context.services.partitions.get(name, data.index)


def _begin_steps(
    exchange: ProduceExchange, context: RequestContext
) -> ProduceExchange | Awaitable[ProduceExchange | None] | None:
    """Append in steps. If the first step is not the last, a coroutine continues, also after the client disconnects."""
    steps = _append_in_steps(exchange, context)
    try:
        waits_for = next(steps)
    except StopIteration as end:
        waiting, unverified = end.value
        return _answer(exchange, waiting, unverified, context)
    return _continue(steps, waits_for, exchange, context)


async def _continue(
    steps: Steps[Appended], waits_for: Awaitable[Any] | None, exchange: ProduceExchange, context: RequestContext
) -> ProduceExchange | None:
    waiting, unverified = await in_turns(steps, waits_for)
    answer = _answer(exchange, waiting, unverified, context)
    return answer if answer is None or isinstance(answer, ProduceExchange) else await answer


def _append_in_steps(exchange: ProduceExchange, context: RequestContext) -> Steps[Appended]:
    """Append every batch in order. A batch whose validation takes long is validated in steps before its append."""
    waiting: list[Append] = []
    unverified: list[Unverified] = []
    work = 0
    for topic in exchange.topics:
        for data in topic.partitions:
            if work >= APPENDED_AT_ONCE:
                work = 0
                yield None
            name, why = _resolve(topic, context, None)
            validated = None
            if why is None:
                validated = yield from _validate(topic, data, context)
                if validated is not None:  # the topic may have been deleted or recreated meanwhile
                    name, why = _resolve(topic, context, None)
            if why is not None:
                _reject(data, why)
                work += 1
                continue
            _append(name, data, exchange, context, waiting, unverified, validated)
            if validated is not None:
                if unverified and unverified[-1][1] is data and _is_converted(validated, data):
                    # queued.max.request.bytes does not count a converted batch: at most one per request waits for
                    # verification.
                    yield _verify_and_append(unverified, exchange, waiting, context)
                    unverified = []
                work = APPENDED_AT_ONCE
            elif data.records is not None and len(data.records) >= BATCH_HEADER_BYTES:
                work += _work(data.records)
            else:
                work += 1
    return waiting, unverified


def _validate(topic: ProducedTopic, data: ProducedPartition, context: RequestContext) -> Steps[Validated | None]:
    """Validate a batch in steps. If its topic's configuration changes meanwhile, validate the batch again."""
    services = context.services
    while True:
        partition = _partition_of(topic, data, context)
        if not _is_long(partition, data, services.clock):
            return None
        assert partition is not None
        assert data.records is not None
        config = partition.log.config
        validated = yield from validate_in_steps(data.records, config, services.clock.wall_ms(), services.large_batches)
        partition = _partition_of(topic, data, context)
        if partition is None or partition.log.config is config:
            return validated


def _is_converted(validated: Validated, data: ProducedPartition) -> bool:
    return isinstance(validated, ValidatedBatch) and validated.batch is not data.records


def _verify(
    exchange: ProduceExchange,
    unverified: list[Unverified],
    waiting: list[Append],
    context: RequestContext,
) -> Awaitable[ProduceExchange] | None:
    """Append the first batches of a transaction, after the coordinator has verified their partitions (KIP-890)."""
    verified_produce = VerifiedProduce(exchange, waiting, len(unverified), context.services.partitions)
    claim = _claim(exchange, context)
    batches = [
        _unverified_batch(each, exchange, waiting, claim, verified_produce.batch_verified) for each in unverified
    ]
    context.services.transaction_verifier.verify(claim, batches)
    return verified_produce.answer()


def _verify_and_append(
    unverified: list[Unverified], exchange: ProduceExchange, waiting: list[Append], context: RequestContext
) -> asyncio.Future[None]:
    """Verify and append batches, in order; the future is resolved when all are appended or rejected."""
    all_appended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    awaited = len(unverified)

    def verified() -> None:
        nonlocal awaited
        awaited -= 1
        if not awaited and not all_appended.done():
            all_appended.set_result(None)

    claim = _claim(exchange, context)
    context.services.transaction_verifier.verify(
        claim, [_unverified_batch(each, exchange, waiting, claim, verified) for each in unverified]
    )
    return all_appended


def _claim(exchange: ProduceExchange, context: RequestContext) -> TransactionClaim:
    assert exchange.transactional_id is not None
    return TransactionClaim(
        transactional_id=exchange.transactional_id,
        adds=context.version >= ADDS_TO_TRANSACTION_SINCE,
        supports_abortable=context.version >= ABORTABLE_SINCE,
    )


def _unverified_batch(
    unverified: Unverified,
    exchange: ProduceExchange,
    waiting: list[Append],
    claim: TransactionClaim,
    verified: Callable[[], None],
) -> UnverifiedBatch:
    partition, data, header, validated = unverified

    def on_verified(error: KafkaError | None) -> KafkaError | None:
        if error is not None and error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            _reject_in(partition, data, error)
        elif error is not None:
            _reject(data, error)
        elif partition.is_removed:
            _reject(data, error := KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif not partition.is_led:
            _reject(data, error := KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            error = _store(
                partition, data, exchange.acks, waiting, validated, first_header=header if claim.adds else None
            )
        verified()
        return error

    producer = Producer(header.producer_id, header.producer_epoch)
    return UnverifiedBatch(partition, producer, header.base_sequence, on_verified)


async def _unanswered(answer: Awaitable[ProduceExchange]) -> None:
    """Wait for the end of a request with acks=0: until then its bytes count towards queued.max.request.bytes."""
    _close_on_error((await answer).topics)


def _close_on_error(topics: list[ProducedTopic]) -> None:
    for topic in topics:
        for partition in topic.partitions:
            if partition.error_code:
                code = ErrorCode(partition.error_code).name
                raise CloseConnection(f"sent a batch with acks=0 that was rejected ({code})")


def _rejection(request: ProduceExchange, context: RequestContext) -> KafkaError | None:
    """Return the error of the whole request, if it is rejected."""
    if request.acks not in _ACKS:
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    transactional_id = request.transactional_id
    if transactional_id is not None and not context.allows(ResourceType.TRANSACTIONAL_ID, transactional_id):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _resolve(
    topic: ProducedTopic, context: RequestContext, rejected: KafkaError | None
) -> tuple[str, KafkaError | None]:
    """Return the topic's name, and the error that rejects all its batches, or None."""
    name = topic.name
    if topic.topic_id is not None:
        name = context.services.image.topic_names.get(topic.topic_id, "")
        if not name:
            return "", rejected or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if rejected is None and not context.allows_topic(name):
        rejected = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return name, rejected


def _append(
    name: str,
    data: ProducedPartition,
    exchange: ProduceExchange,
    context: RequestContext,
    waiting: list[Append],
    unverified: list[Unverified],
    validated: Validated | None = None,
) -> None:
    """Append a batch, or add it to `unverified` if it begins a transaction in its partition."""
    partition = None
    try:
        partition = context.services.partitions.find(name, data.index)
        records = data.records
        if not records:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "Produce requests must have exactly one record batch per partition"
            )
        attributes = records[ATTRIBUTES_LOW_BYTE_POSITION] if len(records) > ATTRIBUTES_LOW_BYTE_POSITION else 0
        if attributes:
            _check_attributes(attributes, context, exchange.transactional_id is not None)
        if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            check_frame(records)
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
        if attributes & TRANSACTIONAL_FLAG:
            header = check_frame(records)
            if not _can_append(partition, header, context):
                unverified.append((partition, data, header, validated))
                return
    except _FencedError as fenced:
        _reject(data, fenced)
        return
    except KafkaError as error:
        _reject_in(partition, data, error)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _name_leader(name, data, exchange, context)
        return
    _store(partition, data, exchange.acks, waiting, validated)


def _name_leader(name: str, data: ProducedPartition, exchange: ProduceExchange, context: RequestContext) -> None:
    """Add the current leader to the response: the client retries the request with it (KIP-951).

    `fetch_answers` does the same for Fetch with message objects. Here they are tuples, as the codec of Produce expects.
    """
    data.current_leader = current_leader(name, data.index, context)
    if data.current_leader is not None:
        endpoint = node_endpoint(data.current_leader[0], context)
        if endpoint is not None and endpoint not in exchange.node_endpoints:
            exchange.node_endpoints = [*exchange.node_endpoints, endpoint]


def _can_append(partition: Partition, header: BatchHeader, context: RequestContext) -> bool:
    """Return True if a transaction's batch may be appended without verification."""
    if header.producer_id == NO_PRODUCER_ID:
        return True
    try:
        partition.log.producers.check_epoch(header.producer_id, header.producer_epoch)
    except KafkaError as error:
        raise _FencedError(error.code, error.message) from error
    producer = Producer(header.producer_id, header.producer_epoch)
    return context.services.transaction_verifier.can_write(
        partition, producer, adds=context.version >= ADDS_TO_TRANSACTION_SINCE
    )


def _store(
    partition: Partition,
    data: ProducedPartition,
    acks: int,
    waiting: list[Append],
    validated: Validated | None,
    first_header: BatchHeader | None = None,
) -> KafkaError | None:
    """Append a batch, or return the error.

    If the response must wait for a flush or a commit, the append is added to `waiting`. `first_header` is the batch's
    header if the verification has just added its partition to a transaction.
    """
    assert data.records is not None
    try:
        if first_header is not None:
            partition.log.producers.check_first_batch(first_header)
        result = partition.append(data.records, acks, validated=validated)
    except KafkaError as error:
        _reject_in(partition, data, error)
        return error
    except DiskFailure as failure:
        logger.error("%s-%d: %s", partition.topic, data.index, failure)  # noqa: TRY400 no traceback needed
        data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    data.base_offset = result.base_offset
    data.log_append_time_ms = result.log_append_time_ms
    data.log_start_offset = result.log_start_offset
    if not partition.satisfies_acks(result.last_offset, acks):
        waiting.append((partition, data, result.last_offset))
    return None


def _check_attributes(attributes: int, context: RequestContext, is_transactional: bool) -> None:
    if context.version < ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or newer")
    if attributes & TRANSACTIONAL_FLAG and not is_transactional:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _reject_in(partition: Partition | None, data: ProducedPartition, error: KafkaError) -> None:
    """Set the error of a batch that a partition rejected, with the log start for most errors."""
    _reject(data, error)
    if partition is not None and error.code not in _WITHOUT_LOG_START:
        data.log_start_offset = partition.log.log_start_offset


def _reject(data: ProducedPartition, error: KafkaError) -> None:
    data.error_code = error.code
    data.record_errors = error.record_errors
    data.error_message = error.message


CODEC = HandWrittenCodec(exchange_decoder, exchange_framer, exchange_pieces_framer, ProduceExchange)
API = Api(
    request=ProduceRequest,
    response=ProduceResponse,
    handle=handle_produce,
    elements_of=lambda exchange: sum(len(topic.partitions) for topic in exchange.topics),
    advertised_min=0,
    pipelined=True,
    codec=CODEC,
)
