"""Random partitions of every kind: a clean stop and a crash keep the written records."""

import random

import pytest

from kwire.log.inspection.partition_check import PartitionCheck
from tests.log.random_directories import KINDS, Writer, random_config
from tests.log.support import NOW_MS, ManualClock, headers, open_at, surroundings

STEPS = 60


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_a_random_partition_is_sound_and_opens_as_it_was_left(tmp_path, name, clean):
    for seed in range(3):
        random_source, clock = random.Random(f"{name} {seed}"), ManualClock(NOW_MS)
        directory, config = tmp_path / f"orders-{seed}", random_config(KINDS[name], random_source)
        log = open_at(directory, config, surroundings(clock=clock))
        Writer(log, KINDS[name], clock, random_source).fill(STEPS)
        log.flush()
        start, end = log.log_start_offset, log.log_end_offset
        data = log.read(start, 1 << 30)
        log.close(clean=clean)
        again = open_at(directory, config, surroundings(clock=clock), clean=clean, log_start_offset=start)
        assert (again.log_start_offset, again.log_end_offset) == (start, end)
        assert again.read(start, 1 << 30) == data
        assert len(headers(data)) > 0
        again.close(clean=True)
        check = PartitionCheck(str(directory), lambda _: None, start)
        assert [finding for finding in check.run() if finding.is_wrong] == []
