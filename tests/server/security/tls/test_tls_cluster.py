"""Three nodes that replicate over TLS, with a listener of brokers and one of controllers, and client certificates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server.security.tls.tls_cluster import TlsCluster, peers, replicate


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TlsCluster]:
    made = TlsCluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_three_nodes_replicate_over_tls(cluster: TlsCluster) -> None:
    with ExitStack() as stack:
        clients = {node: stack.enter_context(cluster.client(node)) for node in cluster.nodes}
        for node in clients:  # also at nodes that forward the request to the active controller
            replicate(cluster, clients, node, f"topic-{node}")
        for running in cluster.nodes.values():
            assert peers(running) <= {"User:CN=client", "User:CN=node-1", "User:CN=node-2", "User:CN=node-3"}
