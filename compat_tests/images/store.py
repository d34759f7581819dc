"""Store digests of Apache Kafka's images of drawn logs for `make test`: `python -m compat_tests.images.store`."""

import tempfile
from pathlib import Path

from compat_tests.images.judging import kafkas_snapshots
from tests.cluster.drawn_logs import Draw
from tests.cluster.kafkas_images import PATH, digest

SEEDS = range(1, 401)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        answers = kafkas_snapshots([Draw(seed).log() for seed in SEEDS], Path(scratch))
    PATH.write_text("".join(f"{seed} {digest(answer)}\n" for seed, answer in zip(SEEDS, answers, strict=True)))


if __name__ == "__main__":
    main()
