"""Grouping of neighbouring segments into one, within the limits of one segment."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.log.batch_order import RELATIVE_OFFSET_MAX
from kwire.log.compaction.plan import RoundPlan, SourceSegment


def group_segments(sources: Sequence[SourceSegment], plan: RoundPlan) -> list[list[SourceSegment]]:
    """Return groups of neighbours that fit segment.bytes, segment.index.bytes and an index entry's offset range."""
    groups: list[list[SourceSegment]] = []
    for source in sources:
        if groups and _fits(groups[-1], source, plan):
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _fits(group: list[SourceSegment], source: SourceSegment, plan: RoundPlan) -> bool:
    return (
        sum(member.size for member in group) + source.size <= plan.segment_bytes
        and sum(member.offset_index_bytes for member in group) + source.offset_index_bytes <= plan.segment_index_bytes
        and sum(member.time_index_bytes for member in group) + source.time_index_bytes <= plan.segment_index_bytes
        and (source.size == 0 or source.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX)
    )
