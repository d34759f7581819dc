"""Pitfall 5: a transaction timeout above transaction.max.timeout.ms is an error; producer ids are never reused."""

import pytest

from compat_tests.harness.waiting import eventually
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest


@pytest.mark.short
@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_new_id_at_epoch_0(peer, version):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    eventually(lambda: peer.ask(request, version).error_code == 0, "ids to give")
    answers = [peer.ask(request, version) for _ in range(20)]
    assert {each.error_code for each in answers} == {0}
    assert {each.producer_epoch for each in answers} == {0}
    assert len({each.producer_id for each in answers}) == 20


@pytest.mark.parametrize("timeout_ms", [900_001, 2**31 - 1, 0, -1])
def test_a_timeout_out_of_bounds_is_rejected(peer, unique, timeout_ms):
    request = InitProducerIdRequest(transactional_id=unique("transaction"), transaction_timeout_ms=timeout_ms)

    def rejected():
        return peer.ask(request, 4).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    eventually(rejected, "the rejection")


def test_an_empty_transactional_id_is_rejected(peer):
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert peer.ask(request, 4).error_code == ErrorCode.INVALID_REQUEST
