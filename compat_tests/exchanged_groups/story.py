"""Story of one directory: groups of all kinds live on while one broker after the other serves it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests.exchanged_groups.asking import Asker, accepted
from compat_tests.exchanged_groups.classics import Classic, Mixed
from compat_tests.exchanged_groups.consumers import PATTERN, TOPIC, Late, Pattern, Reconciling, Stable
from compat_tests.exchanged_groups.directory import Exchanged
from compat_tests.exchanged_groups.members import LEAVES, ConsumerMember
from compat_tests.exchanged_groups.sharing import TOPIC as PARCELS
from compat_tests.exchanged_groups.sharing import Sharing
from compat_tests.exchanged_groups.streaming import TOPIC as WORDS
from compat_tests.exchanged_groups.streaming import Streaming
from compat_tests.exchanged_groups.transactions import Paying
from compat_tests.exchanged_groups.vanishing import Vanishing
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest

SCENES = (Classic, Stable, Reconciling, Mixed, Pattern, Sharing, Streaming, Paying)
TIMED = (Late, Vanishing)
"""Scenes with timeouts, which begin right before an exchange and resume right after it."""

TOPICS = {TOPIC: 4, PATTERN: 2, PARCELS: 1, WORDS: 4}


def create_topics(asker: Asker) -> None:
    """Create the topics, and wait until the coordinator of each group has received them.

    Otherwise a group would have more epochs if its coordinator receives them while members join.
    """
    for name, partitions in TOPICS.items():
        asker.create_topic(name, partitions)
    for group in asker.groups:
        probe = ConsumerMember(asker=asker, group=group, number=50, topics=list(TOPICS))

        def has_all(probe: ConsumerMember = probe) -> bool:
            accepted(probe.beat(owns=True))
            probe.confirm()
            return len(probe.owned) == len(TOPICS)

        eventually(has_all, f"{group} to receive all topics")
        accepted(probe.beat(epoch=LEAVES))
    deleted = asker.ask(DeleteGroupsRequest(groups_names=asker.groups), 2).results
    assert not any(each.error_code for each in deleted), deleted


def tell(home: Path, kinds: Sequence[str], *, clean: bool) -> dict[str, Any]:
    """Serve one directory by brokers of these kinds; stop each, or kill it. Return the answers to compare."""
    exchanged = Exchanged(home)
    try:
        asker: Asker | None = None
        for stage, kind in enumerate(kinds):
            broker = exchanged.serve(kind)
            if asker is None:
                asker = Asker(broker.bootstrap)
                scenes = [make(asker) for make in SCENES]
                timed = [make(asker) for make in TIMED]
                asker.groups = [group for each in (*scenes, *timed) for group in each.groups]
            asker.begin_stage(stage)
            if stage:
                for scene in timed:
                    scene.check_loaded()
                asker.note_groups("loaded")
                for scene in (*timed, *scenes):
                    scene.resume()
                asker.note_groups("settled")
            else:
                create_topics(asker)
                for scene in (*scenes, *timed):
                    scene.begin()
            goes_on = stage + 1 < len(kinds)
            for scene in scenes if goes_on else ():
                scene.leave_open()
            asker.note_groups("at the end", with_records=True)
            for scene in timed if goes_on else ():
                scene.leave_open()
            exchanged.end(clean=clean)
        assert asker is not None
        return asker.answers
    finally:
        exchanged.end(clean=False)
