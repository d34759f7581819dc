"""Rolling restart under transactions: each transaction is committed or aborted as its client requested."""

import signal

import pytest

from compat_tests.upgrade.copiers import COPIERS
from compat_tests.upgrade.rolling import await_health, clients_at_work, replicated_cluster


@pytest.fixture
def cluster(tested, tmp_path):
    running = replicated_cluster(tested, tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.end()


def test_transactions_continue_while_brokers_restart_one_at_a_time(cluster, unique):
    with clients_at_work(cluster, unique, COPIERS) as loads:
        for node in cluster.nodes:
            node.end(signal.SIGTERM)
            # No wait for progress while a broker is down: librdkafka may wait in send_offsets_to_transaction until some
            # connection opens or closes, if the group's coordinator is not running (its issue 5511).
            node.start()
            await_health(cluster)
            for load in loads:
                load.await_progress()
