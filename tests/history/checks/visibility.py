"""Checks of visibility: reads of transactions that are aborted, undecided or incomplete."""

from __future__ import annotations

from collections.abc import Iterator

from tests.history.findings import Finding
from tests.history.operations import COMMITTED, FAIL, OK, Hanging, Poll
from tests.history.timeline import ABORTED, Timeline


def aborted_reads(timeline: Timeline) -> Iterator[Finding]:
    """Yield G1a: reads of values that certainly failed, or belong to a transaction that was certainly aborted."""
    for poll in timeline.polls:
        for key, offset, value in poll.records:
            send = timeline.by_value.get(value)
            if send is None:
                text = f"{poll.process} read {value} at {key}:{offset}, which no producer sent"
                yield Finding("aborted read", text)
            elif send.outcome == FAIL or (poll.level == COMMITTED and timeline.fate(send) == ABORTED):
                text = f"{poll.process} read {value} at {key}:{offset}, whose write was {send.outcome}, then aborted"
                yield Finding("aborted read", text, transactions=timeline.names([value]))


def precommitted_reads(timeline: Timeline) -> Iterator[Finding]:
    """Yield a transaction's reads of its own writes, and read_committed reads before any request to commit."""
    for poll in timeline.polls:
        if poll.level == COMMITTED:
            yield from (_precommitted(timeline, poll, value) for value in _early(timeline, poll))


def _early(timeline: Timeline, poll: Poll) -> Iterator[str]:
    for _, _, value in poll.records:
        send = timeline.by_value.get(value)
        if send is None or send.transaction is None:
            continue
        asked = timeline.transactions[send.transaction].asked_to_commit
        if poll.transaction == send.transaction or poll.completed < asked < float("inf"):
            yield value


def _precommitted(timeline: Timeline, poll: Poll, value: str) -> Finding:
    whose = "its own transaction's" if timeline.by_value[value].transaction == poll.transaction else "a later committed"
    return Finding("precommitted read", f"{poll.process} read {whose} {value}", transactions=timeline.names([value]))


def torn_transactions(timeline: Timeline) -> Iterator[Finding]:
    """Yield transactions of which the final reads found some acknowledged writes and not others."""
    for transaction in timeline.transactions.values():
        judged = [send for send in transaction.sends if send.outcome == OK and send.key in timeline.ends[COMMITTED]]
        visible = [send.value for send in judged if send.value in timeline.seen[COMMITTED]]
        if 0 < len(visible) < len(judged):
            missing = [send.value for send in judged if send.value not in timeline.seen[COMMITTED]]
            text = f"of {transaction.name} {', '.join(visible)} can be seen, {', '.join(missing)} cannot"
            yield Finding("torn transaction", text, transactions=(transaction.name,))


def hanging_transactions(timeline: Timeline) -> Iterator[Finding]:
    """Yield keys whose last stable offset did not reach the end, although all writes and timeouts are over."""
    for each in timeline.all(Hanging):
        text = f"{each.key} is stable up to {each.last_stable_offset} of {each.end} only"
        yield Finding("hanging transaction", text)
