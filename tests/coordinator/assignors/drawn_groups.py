"""Random groups for the assignors: members and topics come, change and go over several rounds.

Each round starts from the targets that kwire computed in the round before. A seed always gives the same group.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import NamedTuple
from uuid import UUID

from kwire.chunks import at_once
from kwire.coordinator.group.assignors.assignors import CONSUMER_ASSIGNORS, SHARE_ASSIGNOR, assign_share, assignor
from kwire.coordinator.group.assignors.java_order import in_bins, size_after_puts, spread, string_hash
from kwire.coordinator.group.modern.assignor import AssignmentInput, MemberSubscription
from kwire.coordinator.group.modern.target_assignment import Partitions, TargetAssignment

MEMBERS_MAX = 200
PARTITIONS_MAX = 50
MANY_PARTITIONS = 300
"""Partitions of a rare topic: only such topics give a member many partitions in one bin of a HashSet."""


class Round(NamedTuple):
    """Input and result of an assignor."""

    name: str
    """Name of the assignor."""
    group: AssignmentInput
    result: dict[str, Partitions]


@dataclass(slots=True)
class _Member:
    topic_ids: AbstractSet[UUID]
    instance_id: str | None


class DrawnGroup:
    """Random group, made from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self._is_share = random.random() < 0.4
        self._is_homogeneous = random.random() < 0.5
        self._counts: dict[UUID, int] = {}
        self._partitions_max = random.choice((1, 4, 12, PARTITIONS_MAX))
        self._members: dict[str, _Member] = {}
        self._targets = TargetAssignment()
        self._id_style = random.randrange(4)
        self._static_share = random.choice((0.0, 0.0, 0.3, 1.0))
        for _ in range(random.randint(1, random.choice((2, 8, 25)))):
            self._create_topic()
        self._common = self._draw_topics()
        for _ in range(random.randint(1, random.choice((4, 20, 60, MEMBERS_MAX)))):
            self._join()

    def rounds(self) -> Iterator[Round]:
        name = SHARE_ASSIGNOR if self._is_share else self._random.choice(CONSUMER_ASSIGNORS)
        for _ in range(self._random.randint(2, 6)):
            if not self._is_share and self._random.random() < 0.15:
                name = self._random.choice(CONSUMER_ASSIGNORS)
            group = self._input()
            result = at_once(assign_share(group) if self._is_share else assignor(name)(group))
            yield Round(name, group, result)
            for member_id, partitions in result.items():
                self._targets.put(member_id, partitions)
            for _ in range(self._random.choice((0, 1, 1, 2, 5))):
                self._change()

    def _input(self) -> AssignmentInput:
        members = {
            member_id: MemberSubscription(
                frozenset(member.topic_ids) & self._counts.keys()
                if self._random.random() < 0.5
                else dict.fromkeys(topic_id for topic_id in member.topic_ids if topic_id in self._counts).keys(),
                self._targets.of(member_id),
                member.instance_id,
            )
            for member_id, member in self._members.items()
        }
        subscribed = [frozenset(member.topic_ids) for member in members.values()]
        are_equal = len(set(subscribed)) <= 1
        return AssignmentInput(
            members=members,
            is_homogeneous=are_equal and self._random.random() < 0.95,
            owners=self._targets.owners,
            partition_counts=dict(self._counts),
            topic_names={topic_id: f"topic-{topic_id.hex[:8]}" for topic_id in self._counts},
            assignable=self._assignable() if self._is_share and self._random.random() < 0.7 else None,
        )

    def _assignable(self) -> dict[UUID, AbstractSet[int]]:
        random, whole = self._random, self._random.choice((1.0, 0.9, 0.5))
        return {
            topic_id: frozenset(
                range(count) if random.random() < whole else random.sample(range(count), random.randint(0, count))
            )
            for topic_id, count in self._counts.items()
            if random.random() < 0.5 + whole / 2
        }

    def _change(self) -> None:
        changes = (
            self._join_several,
            self._leave_several,
            self._replace_static_member,
            self._create_topic,
            self._grow_topic,
            self._delete_topic,
            self._subscribe_anew,
            self._scatter,
        )
        self._random.choices(changes, (4, 4, 2, 1, 2, 1, 2, 2))[0]()

    def _join_several(self) -> None:
        for _ in range(self._random.randint(1, self._random.choice((1, 5, 40)))):
            if len(self._members) < MEMBERS_MAX:
                self._join()

    def _join(self) -> None:
        instance_id = None
        if self._random.random() < self._static_share:
            prefix = self._random.choice(("", "é", "\uffff", "\U0001f600"))
            instance_id = f"{prefix}instance-{self._random.random()}"
        topic_ids = self._common if self._is_homogeneous else self._draw_topics()
        self._members[self._draw_id()] = _Member(topic_ids, instance_id)

    def _leave_several(self) -> None:
        leaving = self._random.randint(1, self._random.choice((1, 5, 40)))
        for member_id in self._random.sample(list(self._members), min(leaving, len(self._members))):
            if len(self._members) > 1 or self._random.random() < 0.02:
                del self._members[member_id]
                self._targets.remove(member_id)

    def _replace_static_member(self) -> None:
        """Give a static member's target to a new member with its instance id."""
        static = [member_id for member_id, member in self._members.items() if member.instance_id is not None]
        if static:
            old = self._random.choice(static)
            new = self._draw_id()
            target = self._targets.of(old)
            self._members[new] = self._members.pop(old)
            self._targets.remove(old)
            self._targets.put(new, target)

    def _create_topic(self) -> None:
        topic_id = UUID(int=self._random.getrandbits(128))
        most = MANY_PARTITIONS if self._random.random() < 0.05 else self._partitions_max
        self._counts[topic_id] = self._random.randint(1, most)

    def _grow_topic(self) -> None:
        if self._counts:
            topic_id = self._random.choice(list(self._counts))
            self._counts[topic_id] = self._counts[topic_id] + self._random.randint(1, 10)

    def _delete_topic(self) -> None:
        if self._counts:
            del self._counts[self._random.choice(list(self._counts))]

    def _subscribe_anew(self) -> None:
        if self._is_homogeneous and self._random.random() < 0.8:
            self._common = self._draw_topics()
            for member in self._members.values():
                member.topic_ids = self._common
            return
        for member in self._members.values():
            if self._random.random() < 0.2:
                member.topic_ids = self._draw_topics()

    def _scatter(self) -> None:
        """Replace the targets by others, as a different assignor could leave them."""
        random = self._random
        members = list(self._members)
        codes = [spread(string_hash(member_id)) for member_id in members]
        members = in_bins(members, codes, size_after_puts(codes))
        stride, owner_count = random.choice((1, 3, 16, 32)), random.choice((1, 3, 16, len(members) or 1))
        targets: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
        for topic_id, count in self._counts.items():
            for partition in range(count):
                owners = members[partition % stride % owner_count :: owner_count]
                if not self._is_share:
                    owners = owners[:1]
                elif random.random() < 0.5:
                    owners = random.sample(members, random.randint(0, len(members)))
                for member_id in owners:
                    targets[member_id].setdefault(topic_id, set()).add(partition)
        for member_id, target in targets.items():
            self._targets.put(member_id, {topic_id: frozenset(numbers) for topic_id, numbers in target.items()})

    def _draw_topics(self) -> AbstractSet[UUID]:
        """Return topics in random order: all, some, or rarely none."""
        share = self._random.choice((1.0, 1.0, 0.7, 0.3, 0.1, 0.0 if self._random.random() < 0.1 else 1.0))
        chosen = [topic_id for topic_id in self._counts if self._random.random() < share]
        self._random.shuffle(chosen)
        return dict.fromkeys(chosen).keys()

    def _draw_id(self) -> str:
        random = self._random
        if self._id_style == 0:
            return f"consumer-{len(self._members)}-{UUID(int=random.getrandbits(128))}"
        if self._id_style == 1:
            return "".join(random.choices(("Aa", "BB", "é", "\U0001f600", "\ufffd", "x"), k=12))  # equal hash codes
        return urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")


def drawn_rounds(seed: int) -> Iterator[Round]:
    """Yield the rounds of one group."""
    yield from DrawnGroup(seed).rounds()
