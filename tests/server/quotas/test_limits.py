"""Client quotas: which of Kafka's eight entity levels applies, in their order."""

from __future__ import annotations

import itertools
import math

import pytest

from kwire.cluster.metadata.client_quotas import ClientQuotas, QuotaEntity
from kwire.server.quotas.limits import AddressLimits
from tests.server.quotas.world import limits_of

ALICE, ANY_USER, APP, ANY_APP = ("user", "alice"), ("user", None), ("client-id", "app"), ("client-id", None)
IN_ORDER: list[tuple[QuotaEntity, tuple[str, str]]] = [
    ((ALICE, APP), ("alice", "app")),
    ((ALICE, ANY_APP), ("alice", "app")),
    ((ALICE,), ("alice", "")),
    ((ANY_USER, APP), ("alice", "app")),
    ((ANY_USER, ANY_APP), ("alice", "app")),
    ((ANY_USER,), ("alice", "")),
    ((APP,), ("", "app")),
    ((ANY_APP,), ("", "app")),
]


@pytest.mark.parametrize("count", range(1, 9))
def test_the_nearest_quota_counts(count: int) -> None:
    for chosen in itertools.combinations(range(8), count):
        limits = limits_of({IN_ORDER[place][0]: float(place + 1) for place in chosen})
        nearest = min(chosen)
        assert limits.find("alice", "app") == (IN_ORDER[nearest][1], nearest + 1)


def test_quotas_of_a_name_do_not_limit_other_names() -> None:
    limits = limits_of({(ALICE, APP): 1.0, (ALICE,): 2.0, (APP,): 3.0})
    assert limits.find("bob", "other") is None
    assert limits.find("bob", "app") == (("", "app"), 3.0)
    assert limits.find("alice", "other") == (("alice", ""), 2.0)


def test_a_client_without_an_id_has_its_users_quota() -> None:
    limits = limits_of({(ANY_USER, ANY_APP): 1.0, (ALICE,): 2.0, (ANY_APP,): 3.0})
    assert limits.find("alice", "") == (("alice", ""), 2.0)
    assert limits_of({(ANY_APP,): 3.0}).find("alice", "") is None


def test_ip_quotas_are_no_user_or_client_limits() -> None:
    assert not limits_of({(("ip", None),): 1.0})
    assert not limits_of({})


def test_a_quota_of_nan_sets_no_limit() -> None:
    limits = limits_of({(APP,): math.nan, (ANY_APP,): 1.0})
    assert limits.find("alice", "app") == (("", "app"), math.inf)


def test_an_address_has_no_limit_that_is_no_number() -> None:
    quotas: ClientQuotas = {(("ip", "127.0.0.1"),): {"k": math.nan}, (("ip", None),): {"k": math.nan}}
    limits = AddressLimits(quotas, "k")
    for host in ("127.0.0.1", "127.0.0.2"):
        assert limits.find(host, "") == ((host, ""), math.inf)
