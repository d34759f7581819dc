"""Random steps about groups of all kinds: mostly what a client sends next, sometimes what it must not send.

The choices do not depend on responses. Epochs, owned partitions and acquired records come from those of each broker.
"""

import random
from collections.abc import Callable
from typing import Any

from compat_tests.group_script import consumer_steps, share_steps, streams_steps, topics
from compat_tests.group_script.known import Step, often
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from tests.support.requests import group_configs

ALL_GROUPS = (*consumer_steps.GROUPS, *share_steps.GROUPS, *streams_steps.GROUPS)


class Script:
    """Generator of one step after the other."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def next(self) -> tuple[Step, int]:
        """Return a step, and the seed for the random source of its request."""
        makers: dict[Callable[[random.Random], Step], float] = {
            consumer_steps.heartbeat: 30,
            consumer_steps.commit: 6,
            consumer_steps.fetch_offsets: 3,
            consumer_steps.delete_offsets: 1,
            share_steps.heartbeat: 14,
            share_steps.fetch: 14,
            share_steps.acknowledge: 7,
            share_steps.alter_offsets: 1,
            share_steps.delete_offsets: 0.5,
            streams_steps.heartbeat: 25,
            topics.produce: 6,
            topics.delete: 0.1,
            topics.grow: 0.15,
            _delete_group: 0.6,
            _list_groups: 1,
            _configure_group: 0.5,
        }
        maker = self._source.choices(list(makers), list(makers.values()))[0]
        return maker(self._source), self._source.getrandbits(32)


def _delete_group(source: random.Random) -> Step:
    group = source.choice((*consumer_steps.GROUPS, "share-3", *streams_steps.GROUPS))
    return _same(2, DeleteGroupsRequest(groups_names=[group]), groups=(group,))


def _list_groups(source: random.Random) -> Step:
    request = ListGroupsRequest()
    if often(source, 0.4):
        request.states_filter = [source.choice(("stable", "Empty", "Reconciling", "Assigning", "NotReady", "what"))]
    if often(source, 0.4):
        request.types_filter = [source.choice(("consumer", "Share", "streams", "classic", "what"))]
    return _same(5, request)


def _configure_group(source: random.Random) -> Step:
    """Change a setting of a group. Standby tasks appear; offsets are reset differently."""
    group, name, values = source.choice(
        (
            ("streams-1", "streams.num.standby.replicas", ("0", "1", "2", "9")),
            ("share-1", "share.auto.offset.reset", ("earliest", "latest", "by_duration:PT1H", "never")),
            ("share-2", "share.isolation.level", ("read_committed", "read_uncommitted", "none")),
            ("share-1", "share.heartbeat.interval.ms", ("6000", "0")),
            ("consumer-1", "consumer.heartbeat.interval.ms", ("6000", "0")),
        )
    )
    return _same(1, group_configs(group, {name: source.choice(values)}), groups=(group,))


def _same(version: int, request: Any, groups: tuple[str, ...] = ()) -> Step:
    return Step(version=version, build=lambda known, source: request, groups=groups)
