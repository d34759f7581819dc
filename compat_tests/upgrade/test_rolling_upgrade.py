"""Rolling upgrade: a cluster formatted for an earlier release is restarted, then gets the current metadata.version."""

import signal

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.upgrade.loads import Confluent
from compat_tests.upgrade.rolling import await_health, clients_at_work, replicated_cluster
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.raw_client import RawClient

METADATA_VERSION = "metadata.version"
UPGRADE = 1
LEVELS = {"4.0": 25, "4.2": 29}
LATEST = 30


@pytest.fixture(params=LEVELS)
def release(request):
    return request.param


@pytest.fixture
def cluster(tested, release, tmp_path):
    running = replicated_cluster(tested, tmp_path)
    running.format_options = ("--release-version", release)
    try:
        running.start()
        yield running
    finally:
        running.end()


def level(node):
    """Return the finalised metadata.version of one broker."""
    with RawClient(node.bootstrap) as client:
        reported = client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {each.name: each.max_version_level for each in reported.finalized_features}[METADATA_VERSION]


def raise_level(node):
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=LATEST, upgrade_type=UPGRADE)
    with RawClient(node.bootstrap) as client:
        answer = client.ask(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000), 1)
    assert answer.error_code == 0, answer.error_message


def test_a_rolling_upgrade_raises_the_metadata_version_under_load(cluster, release, unique):
    assert [level(node) for node in cluster.nodes] == [LEVELS[release]] * 3
    with clients_at_work(cluster, unique, [Confluent]) as loads:
        for node in cluster.nodes:
            node.end(signal.SIGTERM)
            node.start()
            await_health(cluster)
        assert [level(node) for node in cluster.nodes] == [LEVELS[release]] * 3
        raise_level(cluster[1])
        for node in cluster.nodes:
            eventually(lambda node=node: level(node) == LATEST, "the new level is known")
        loads[0].await_progress()
        cluster[2].end(signal.SIGKILL)
        cluster[2].start()
        await_health(cluster)
        assert level(cluster[2]) == LATEST
