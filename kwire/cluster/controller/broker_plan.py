"""What follows for partitions when a broker changes, planned in pieces.

A broker may have thousands of partitions. Their records are written in portions, each planned on the newest image; what
is left at the end is one batch. Between two portions anything may happen: topics that have changed since they were
looked at are looked at again, so that what is left at the end, with the records beside it, holds for all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kwire.chunks import Pieces
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.image import PartitionImage
from kwire.cluster.persistent_map import changed_keys
from kwire.protocol.messages.metadata_records import PartitionChangeRecord

RECORDS_PER_PORTION: Final = 32
"""To plan, encode and apply one takes about 40 us."""
PLACES_PER_PORTION: Final = 2048
"""Partitions that are looked at and left as they are: less than 1 us for each."""
PLACES_PER_PLAN: Final = PLACES_PER_PORTION // RECORDS_PER_PORTION
"""How many of them take as long as one for which a change is planned, whether or not a record comes of it."""

Concerns = Callable[[PartitionImage], bool]
"""Whether a change is to be planned for a partition; False once that is made."""
Updates = Callable[[ControllerView, Iterable[Place]], Sequence[PartitionChangeRecord]]
"""The records for those of some partitions that have to change."""


class BrokerPlan:
    """The records of one operation of the controller; a Plan for broker_control."""

    def __init__(self, view: ControllerView) -> None:
        self.begin(view)

    def begin(self, view: ControllerView) -> None:
        """Plan on this view from now on: `records` are appended, or there are none."""
        self.records: list[Any] = []
        self.view = view
        """The newest image, without the records."""
        self._settled = view
        self._settled_count = 0
        """How many of the records are in the settled view."""

    def settled(self) -> ControllerView:
        """The newest image with the records so far."""
        self._settled = self._settled.after(self.records[self._settled_count :])
        self._settled_count = len(self.records)
        return self._settled

    def sweep(self, concerns: Concerns, updates: Updates) -> Pieces[None]:
        """Add the updates of all partitions that are concerned."""
        names: Iterable[str] = self.settled().image.topics
        effort = 0
        while names:
            topics = self._settled.image.topics
            for name in names:
                partitions = len(topics[name].partitions) if name in topics else 0
                for start in range(0, partitions, RECORDS_PER_PORTION):
                    effort += self._add(concerns, updates, name, start)
                    if effort >= PLACES_PER_PORTION or len(self.records) >= RECORDS_PER_PORTION:
                        effort = 0
                        yield
            names = changed_keys(topics, self._settled.image.topics)

    def _add(self, concerns: Concerns, updates: Updates, name: str, start: int) -> int:
        """Add the updates of some partitions of a topic, if it is still there; return the effort in places."""
        topic = self._settled.image.topics.get(name)
        if topic is None:
            return 1
        some = topic.partitions[start : start + RECORDS_PER_PORTION]
        places = [Place(topic, start + index, each) for index, each in enumerate(some) if concerns(each)]
        if places:
            self.records += updates(self._settled, places)
        return len(some) + len(places) * PLACES_PER_PLAN
