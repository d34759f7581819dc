"""Seeds in separate processes."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

CAMPAIGN = """
import multiprocessing, signal
from tests.simulation.many import run_many

if __name__ == "__main__":
    results = run_many("quorum", range(1, 9))
    next(results)
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    signal.pause()
"""


@pytest.mark.long
def test_a_campaign_that_is_killed_leaves_no_workers_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", CAMPAIGN], stdout=subprocess.PIPE, text=True) as campaign:
        try:
            assert campaign.stdout is not None
            workers = [os.pidfd_open(int(pid)) for pid in campaign.stdout.readline().split()]
        finally:
            campaign.kill()
    try:
        assert len(workers) == 2
        for worker in workers:
            ended = select.poll()
            ended.register(worker, select.POLLIN)
            assert ended.poll(60_000), "it still runs"
    finally:
        for worker in workers:
            os.close(worker)
