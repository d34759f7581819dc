"""Rolling restarts and kills under load: no client reports an error to its application."""

import signal

import pytest

from compat_tests.upgrade.rolling import await_health, clients_at_work, replicated_cluster


@pytest.fixture(scope="module")
def cluster(tested, tmp_path_factory):
    running = replicated_cluster(tested, tmp_path_factory.mktemp("rolling"))
    try:
        running.start()
        yield running
    finally:
        running.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_clients_continue_while_brokers_restart_one_at_a_time(cluster, unique, number):
    with clients_at_work(cluster, unique) as loads:
        for node in cluster.nodes:
            node.end(number)
            for load in loads:
                load.await_progress()
            node.start()
            await_health(cluster)
