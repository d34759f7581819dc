"""Memory of a broker's responses, for later requests to the same broker."""

from typing import Any

from compat_tests.differential.lazy import Known, Memory


def learn(memory: Memory, request: Any, answer: Any) -> None:
    """Remember the values of a response. `request` is the script's: its lazy values name the keys to remember."""
    learner = _LEARNERS.get(type(request).__name__)
    if learner is not None:
        learner(memory, request, answer)


def learn_topics(memory: Memory, answer: Any) -> None:
    """Remember topic ids from a Metadata response; both brokers send one when their metadata is stable."""
    for topic in answer.topics:
        if topic.error_code == 0 and topic.topic_id.int:
            known = memory.get(("topic", topic.name))
            if known != topic.topic_id:
                memory["topic before", topic.name] = known or topic.topic_id
                memory["topic", topic.name] = topic.topic_id


def lost_its_leader(memory: Memory, group_id: str, generation: int) -> bool:
    """Return True if this generation's leader differs from the leader of the last generation observed before it."""
    leaders = memory.get(("leaders", group_id), {})
    before = max((each for each in leaders if each < generation), default=None)
    return before is not None and generation in leaders and leaders[before] != leaders[generation]


def _joined(memory: Memory, request: Any, answer: Any) -> None:
    if isinstance(request.member_id, Known) and answer.member_id and answer.error_code in (0, MEMBER_ID_REQUIRED):
        memory[request.member_id.key] = answer.member_id
    if answer.error_code == 0:
        memory["generation", request.group_id] = answer.generation_id
        memory.setdefault(("leaders", request.group_id), {})[answer.generation_id] = answer.leader


def _fetched(memory: Memory, request: Any, answer: Any) -> None:
    if not isinstance(request.session_id, Known) or answer.error_code:
        return
    number = request.session_id.key[1]
    if answer.session_id:
        known = memory.get(("session", number))
        memory["session epoch", number] = 1 if known != answer.session_id else memory["session epoch", number] + 1
        memory["session", number] = answer.session_id


def _producer(memory: Memory, request: Any, answer: Any) -> None:
    is_transactional = request.transactional_id is not None  # only Kafka serves these
    if isinstance(request.producer_id, Known) and answer.error_code == 0 and not is_transactional:
        memory[request.producer_id.key] = answer.producer_id
        memory["producer epoch", request.producer_id.key[1]] = answer.producer_epoch


def _subscribed(memory: Memory, request: Any, answer: Any) -> None:
    if isinstance(request.client_instance_id, Known) and answer.error_code == 0:
        memory[request.client_instance_id.key] = answer.client_instance_id


MEMBER_ID_REQUIRED = 79
_LEARNERS = {
    "JoinGroupRequest": _joined,
    "FetchRequest": _fetched,
    "InitProducerIdRequest": _producer,
    "GetTelemetrySubscriptionsRequest": _subscribed,
}
