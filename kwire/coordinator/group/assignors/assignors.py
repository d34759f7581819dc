"""Assignors by name, as in group.consumer.assignors and in a member's ServerAssignor."""

from __future__ import annotations

from typing import Final

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.range_assignor import assign_ranges
from kwire.coordinator.group.assignors.simple_heterogeneous import share_different_topics
from kwire.coordinator.group.assignors.simple_homogeneous import share_same_topics
from kwire.coordinator.group.assignors.uniform_heterogeneous import assign_by_load
from kwire.coordinator.group.assignors.uniform_homogeneous import assign_uniformly
from kwire.coordinator.group.modern.assignor import Assign, AssignmentInput
from kwire.coordinator.group.modern.target_assignment import Partitions

CONSUMER_ASSIGNORS: Final = ("uniform", "range")
"""Names of the assignors of consumer groups; the first is the default."""
SHARE_ASSIGNOR: Final = "simple"
"""Name of the assignor of share groups."""


def assign_uniform(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a target assignment that balances the number of partitions and moves few of them."""
    return assign_uniformly(group) if group.is_homogeneous else assign_by_load(group)


def assign_share(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a target assignment of a share group: a partition may have several members."""
    return share_same_topics(group) if group.is_homogeneous else share_different_topics(group)


_JAVA: Final = "org.apache.kafka.coordinator.group.assignor."
_BY_NAME: Final[dict[str, Assign]] = {
    "uniform": assign_uniform,
    "range": assign_ranges,
    f"{_JAVA}UniformAssignor": assign_uniform,
    f"{_JAVA}RangeAssignor": assign_ranges,
}


def assignor(name: str) -> Assign:
    """Return a consumer group's assignor by its name or Kafka's class name. Raises ValueError for other names."""
    found = _BY_NAME.get(name)
    if found is None:
        raise ValueError(f"{name} is not an assignor; use one of {', '.join(CONSUMER_ASSIGNORS)}")
    return found
