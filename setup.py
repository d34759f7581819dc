"""Builds wheels; everything else about the package is in pyproject.toml.

Without KWIRE_COMPILE this makes the pure wheel, which runs everywhere. With KWIRE_COMPILE=1 mypyc compiles the hot path
into one extension beside the same sources (docs/decisions/0006); that needs mypy and a C compiler, see `make wheel`.
"""

import os
from pathlib import Path

from setuptools import setup

COMPILED = [
    "kwire/cluster/partitions/partition.py",
    "kwire/cluster/partitions/partitions.py",
    "kwire/cluster/partitions/follower.py",
    "kwire/cluster/partitions/in_sync.py",
    "kwire/coordinator/group/committing.py",
    "kwire/coordinator/group/offsets.py",
    "kwire/coordinator/group/records.py",
    "kwire/coordinator/group_coordinator.py",
    "kwire/coordinator/runtime.py",
    "kwire/coordinator/shard.py",
    "kwire/log/*.py",
    "kwire/protocol/framing.py",
    "kwire/protocol/offset_commit_record.py",
    "kwire/protocol/produce_exchange.py",
    "kwire/protocol/records.py",
    "kwire/protocol/wire.py",
    "kwire/protocol/wrapping.py",
    "kwire/seams.py",
    "kwire/server/apis/records/fetch.py",
    "kwire/server/apis/groups/offset_commit.py",
    "kwire/server/apis/records/produce.py",
    "kwire/server/requests/authorization.py",
    "kwire/server/network/arriving_frame.py",
    "kwire/server/network/connection.py",
    "kwire/server/requests/context.py",
    "kwire/server/requests/dispatch.py",
    "kwire/server/fetching/delayed_fetch.py",
    "kwire/server/fetching/fetch.py",
    "kwire/server/fetching/fetch_answers.py",
    "kwire/server/fetching/fetch_plan.py",
    "kwire/server/fetching/fetch_session.py",
    "kwire/server/fetching/fetch_sessions.py",
    "kwire/server/fetching/reading.py",
    "kwire/server/fetching/session_cache.py",
    "kwire/server/fetching/session_watch.py",
    "kwire/server/fetching/unready_logs.py",
    "kwire/server/network/listener.py",
    "kwire/server/network/outbox.py",
    "kwire/server/network/pending.py",
    "kwire/server/network/memory/request_memory.py",
    "kwire/server/network/response_queue.py",
    "kwire/server/network/flow/turns.py",
]
INTERPRETED = {
    "__init__.py",
    # A seam: tests and embedders derive from it, which a compiled class does not allow.
    "disk.py",
}


def hot_modules() -> list[str]:
    """The files that are compiled."""
    found = {pattern: [path for path in Path().glob(pattern) if path.name not in INTERPRETED] for pattern in COMPILED}
    missing = [pattern for pattern, paths in found.items() if not paths]
    assert not missing, f"modules to compile that are not there: {missing}"
    return sorted(str(path) for paths in found.values() for path in paths)


if __name__ == "__main__":
    if os.environ.get("KWIRE_COMPILE") == "1":
        from mypyc.build import mypycify

        setup(ext_modules=mypycify(hot_modules(), opt_level=os.environ.get("KWIRE_OPT_LEVEL", "3"), debug_level="0"))
    else:
        setup()
