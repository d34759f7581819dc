"""Quota manager: the usage of each request that counts, and the throttle time in its response."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import CreateTopicsResponse
from kwire.protocol.messages.describe_quorum import DescribeQuorumResponse
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.metadata import MetadataResponse
from kwire.protocol.messages.produce import ProduceResponse
from tests.server.quotas.world import context, image_of, manager

EVERYBODY = (("user", None),)
PRODUCE, FETCH, METADATA = context(ApiKey.PRODUCE), context(ApiKey.FETCH), context(ApiKey.METADATA)


def test_the_quota_manager_is_inactive_without_quotas() -> None:
    quotas, _ = manager("producer_byte_rate", {})
    with_quota = image_of("producer_byte_rate", {EVERYBODY: 10.0})
    seen = [quotas.active]
    quotas.apply(MetadataDelta(MetadataImage(), with_quota))
    seen.append(quotas.active)
    quotas.apply(MetadataDelta(with_quota, MetadataImage()))
    seen.append(quotas.active)
    quotas.load(image_of("connection_creation_rate", {(("ip", None),): 5.0}))
    assert [*seen, quotas.active] == [False, True, False, False]


def test_producers_pay_for_the_bytes_of_their_requests() -> None:
    quotas, clock = manager("producer_byte_rate", {EVERYBODY: 1000.0})
    response = ProduceResponse()
    assert quotas.throttle_ms(PRODUCE, response, 10_000) == 0
    assert quotas.throttle_ms(PRODUCE, response, 1_000) == 1000
    assert response.throttle_time_ms == 1000
    clock.ms += 11_000
    assert quotas.throttle_ms(PRODUCE, response, 10_000) == 0
    assert quotas.throttle_ms(PRODUCE, None, 500) == 500, "acks=0 has no answer and is muted all the same"
    assert quotas.throttle_ms(METADATA, MetadataResponse(), 10**9) == 0


def test_a_throttled_fetch_gets_no_records_and_is_not_counted() -> None:
    quotas, clock = manager("consumer_byte_rate", {EVERYBODY: 1000.0})
    assert quotas.fetch_bytes_max(FETCH) == 10_000
    assert quotas.fetch_throttle_ms(FETCH, 10_000) == 0
    assert quotas.fetch_throttle_ms(FETCH, 5_000) == 5_000
    assert quotas.fetch_throttle_ms(FETCH, 5_000) == 5_000, "the first rejection cost nothing"
    clock.ms += 11_000
    assert quotas.fetch_throttle_ms(FETCH, 5_000) == 0
    response = FetchResponse(throttle_time_ms=77)
    assert quotas.throttle_ms(FETCH, response, 100) == 77, "what the handler found is passed on"


def test_fetches_of_clients_without_a_quota_are_not_limited() -> None:
    quotas, _ = manager("consumer_byte_rate", {(("client-id", "other"),): 1000.0})
    assert not quotas.limits_fetch(FETCH)
    assert quotas.fetch_throttle_ms(FETCH, 10_000_000) == 0
    assert quotas.fetch_bytes_max(FETCH) == 2**31 - 1


def test_row_41_requests_pay_for_their_time() -> None:
    quotas, clock = manager("request_percentage", {EVERYBODY: 10.0})
    response = MetadataResponse()
    quotas.begin()
    clock.ms += 600
    spent = quotas.spent_ms()
    assert spent == 600
    clock.ms += 5_000  # the client waits
    quotas.begin(spent)
    clock.ms += 400
    assert quotas.throttle_ms(METADATA, response, 1) == 0, "1 s of 10 s is 10 percent"
    quotas.begin()
    clock.ms += 50
    assert quotas.throttle_ms(METADATA, response, 1) == 450
    quotas.begin()
    clock.ms += 5_000
    assert quotas.throttle_ms(METADATA, response, 1) == 1000, "at most one window"
    quotas.begin()
    clock.ms += 1
    assert quotas.throttle_ms(PRODUCE, None, 1) == 0, "acks=0 is exempt"


def test_an_answer_without_a_throttle_time_is_muted_only() -> None:
    quotas, clock = manager("request_percentage", {EVERYBODY: 1.0})
    quotas.begin()
    clock.ms += 1000
    assert quotas.throttle_ms(context(ApiKey.DESCRIBE_QUORUM), DescribeQuorumResponse(), 1) == 1000


def test_strict_mutations_are_rejected_and_permissive_ones_wait() -> None:
    quotas, clock = manager("controller_mutation_rate", {EVERYBODY: 2.0})
    strict = quotas.mutations(context(ApiKey.CREATE_TOPICS, version=6), strict_since=6)
    strict.record(30)  # 22 tokens exist at first
    assert strict.throttle_ms == 0
    with pytest.raises(KafkaError) as rejected:
        strict.record(1)
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms == 4000
    clock.ms += 1500
    assert strict.throttle_ms == 2500
    permissive = quotas.mutations(context(ApiKey.CREATE_TOPICS, version=5), strict_since=6)
    permissive.record(1)
    assert permissive.throttle_ms == 3000
    answer = CreateTopicsResponse(throttle_time_ms=permissive.throttle_ms)
    assert quotas.throttle_ms(context(ApiKey.CREATE_TOPICS), answer, 1) == 3000
    free = quotas.mutations(context(ApiKey.CREATE_TOPICS, version=5), strict_since=6)
    clock.ms += 3000
    free.record(0)
    assert free.throttle_ms == 0


def test_addresses_may_connect_only_so_often() -> None:
    quotas, clock = manager("connection_creation_rate", {(("ip", None),): 3.0, (("ip", "127.0.0.1"),): 1.0})
    assert not quotas.active, "requests need not be measured for that"
    assert [quotas.connection_rejected_ms("127.0.0.1") for _ in range(12)] == [0] * 10 + [1000] * 2
    assert [quotas.connection_rejected_ms("10.0.0.9") for _ in range(31)] == [0] * 30 + [333]
    clock.ms += 11_000
    assert quotas.connection_rejected_ms("127.0.0.1") == 0, "those that were rejected did not count"
    others, _ = manager("connection_creation_rate", {(("ip", "localhost"),): 1.0})
    assert others.connection_rejected_ms("10.0.0.9") == 0


def test_mutations_without_a_quota_are_not_throttled() -> None:
    quotas, _ = manager("producer_byte_rate", {EVERYBODY: 2.0})
    mutations = quotas.mutations(context(ApiKey.CREATE_TOPICS), strict_since=6)
    mutations.record(10**9)
    assert mutations.throttle_ms == 0
