"""Map of topic ids to names: it behaves as a dict, and earlier versions do not change."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.topic_id_map import PARTS, TopicIdMap

IDS = [UUID(int=(number << 8) + number % 7) for number in range(40)]
"""Topic ids in seven parts."""
KEYS = st.sampled_from(IDS)
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.text(max_size=3)), max_size=40)
"""Changes (topic id, name); the name None removes the topic id."""


@given(st.lists(st.tuples(CHANGES, st.integers(0, 5)), max_size=12))
def test_maps_equal_dicts_and_do_not_change(history: list[tuple[list[tuple[UUID, str | None]], int]]) -> None:
    """Each map derives from an earlier one, not always from the last: uncommitted versions may be dropped."""
    versions: list[tuple[TopicIdMap, dict[UUID, str]]] = [(TopicIdMap(), {})]
    for changes, back in history:
        mapping, model = versions[max(0, len(versions) - 1 - back)]
        draft, model = mapping.draft(), dict(model)
        for topic_id, name in changes:
            for each in (draft, model):
                if name is None:
                    each.pop(topic_id, None)
                else:
                    each[topic_id] = name
            assert (topic_id in draft, len(draft)) == (topic_id in model, len(model))
            assert draft.get(topic_id) == model.get(topic_id)
        assert set(draft) == set(model)
        versions.append((draft.finish(), model))
    for mapping, model in versions:
        assert dict(mapping) == model
        assert len(mapping) == len(model)
        assert [mapping.get(topic_id) for topic_id in IDS] == [model.get(topic_id) for topic_id in IDS]


def test_a_change_copies_one_part() -> None:
    before = TopicIdMap().draft()
    for number in range(10 * PARTS):
        before[UUID(int=number)] = str(number)
    mapping = before.finish()
    draft = mapping.draft()
    draft[UUID(int=5)] = "changed"
    changed = draft.finish()
    copied = [number for number in range(PARTS) if mapping.parts[number] is not changed.parts[number]]
    assert copied == [5]
    assert mapping[UUID(int=5)] == "5"
