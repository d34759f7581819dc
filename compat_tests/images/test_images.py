"""kwire's metadata image equals Apache Kafka's after the same log, and each reads the other's snapshots.

Kafka's own classes replay the logs (Images.java); no broker runs. IMAGES=1000 tests 1000 logs, from seed SEED=7 on.
"""

import os
from functools import partial

import pytest

from compat_tests.harness.seeds import check_no_differences
from compat_tests.images.judging import image_of, kafkas_snapshots, snapshot_batches
from kwire.cluster.metadata.image_records import records_of
from tests.cluster.drawn_logs import Draw
from tests.cluster.kafkas_images import digest, stored
from tests.cluster.replayed_logs import image_after, normalised

COUNT = int(os.environ.get("IMAGES", "50000"))
SHORT_COUNT = 1000
FIRST_SEED = int(os.environ.get("SEED", "1"))
CHUNK = 5000


def differences(seeds, directory):
    """Yield (seed, difference) for the logs of these seeds."""
    logs = {seed: Draw(seed).log() for seed in seeds}
    images = {seed: image_after(log) for seed, log in logs.items()}
    snapshots = [snapshot_batches(image) for image in images.values()]
    answers = iter(kafkas_snapshots([*logs.values(), *snapshots], directory))
    after_log = {seed: next(answers) for seed in logs}
    after_snapshot = {seed: next(answers) for seed in logs}
    for seed, image in images.items():
        if isinstance(after_log[seed], str):
            yield seed, after_log[seed]
            continue
        ours, theirs = set(normalised(records_of(image))), set(normalised(after_log[seed]))
        if ours != theirs:
            yield seed, {"only kwire": sorted(ours - theirs), "only Kafka": sorted(theirs - ours)}
        elif isinstance(after_snapshot[seed], str):
            yield seed, f"Kafka cannot read kwire's snapshot: {after_snapshot[seed]}"
        elif set(normalised(after_snapshot[seed])) != ours:
            yield seed, "Kafka reads something else from kwire's snapshot"
        elif set(normalised(records_of(image_of(after_log[seed])))) != ours:
            yield seed, "kwire reads something else from Kafka's snapshot"


def compare(count, directory):
    check_no_differences(partial(differences, directory=directory), FIRST_SEED, count, "images", chunk=CHUNK)


@pytest.mark.short
def test_a_few_images_match_kafkas(tmp_path):
    compare(SHORT_COUNT, tmp_path)


def test_images_match_kafkas(tmp_path):
    compare(COUNT, tmp_path)


@pytest.mark.short
def test_stored_digests_match_kafkas(tmp_path):
    """`make test` relies on these digests being Kafka's; `python -m compat_tests.images.store` writes them again."""
    logs = {seed: Draw(seed).log() for seed in stored()}
    answers = kafkas_snapshots(logs.values(), tmp_path)
    assert {seed: digest(answer) for seed, answer in zip(logs, answers, strict=True)} == stored()
