"""Access control of a simulated cluster: how soon a change counts, and what the checks of seeds find."""

from __future__ import annotations

import asyncio

import pytest

from kwire.cluster.security.standard_authorizer import StandardAuthorizer
from kwire.simulation import Simulation
from tests.simulation.access import AccessRules, RightsKeeper, secured_config
from tests.simulation.cluster import run_seed
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_ledger import Ledger
from tests.support.access_rights import ENTRIES, GUARDED
from tests.support.compiled import replaces_methods

SECURED_SEED = 8


def test_row_35_a_changed_acl_counts_on_all_brokers_within_a_second() -> None:
    async def scenario() -> None:
        await cluster.start()
        administrator = Administrator(simulation, cluster.brokers, ledger, "admin")
        await administrator.create_for_good(GUARDED, 1)
        keeper = RightsKeeper(simulation, cluster.brokers, ledger)
        for changed in ENTRIES:
            for is_created in (True, False):
                await keeper.change(changed, is_created=is_created)
                await asyncio.sleep(1.0)
                for broker in cluster.brokers:
                    assert await keeper.compare(broker.node_id) == ({changed} if is_created else set())
        keeper.close()
        administrator.close()

    ledger = Ledger()
    with Simulation(1) as simulation:
        cluster = simulation.cluster(brokers=3, controllers=0, config=secured_config())
        simulation.check_every(1, AccessRules(cluster).look)
        simulation.run(scenario(), seconds=120)
    allowing = len([each for each in ENTRIES if each.permission == ENTRIES[0].permission])
    assert ledger.checked[True] == allowing * len(cluster.brokers)
    assert ledger.checked[False] == (2 * len(ENTRIES) - allowing) * len(cluster.brokers)


@replaces_methods
def test_a_seed_finds_decisions_that_outlive_their_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(self: StandardAuthorizer, removed: object, added: object) -> None:
        kept = dict(self.known)
        right(self, removed, added)  # type: ignore[arg-type]
        self.known.update(kept)

    right = StandardAuthorizer.change
    monkeypatch.setattr(StandardAuthorizer, "change", change)
    with pytest.raises(AssertionError, match="answered"):
        run_seed(SECURED_SEED)
