"""Cycles among transactions: by the order of their writes (ww), and by reads of other transactions' writes (wr)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.history.findings import ALLOWED, BAD, REPORTED, Finding
from tests.history.operations import COMMITTED
from tests.history.timeline import Timeline

Graph = dict[str, set[str]]


def write_cycles(timeline: Timeline) -> Iterator[Finding]:
    """Yield G0: transactions whose writes interleave in cycles. Kafka's model allows them."""
    for group in cycles(_write_order(timeline)):
        yield Finding("G0", f"{', '.join(group)} write in a circle", REPORTED, tuple(group))


def information_cycles(timeline: Timeline) -> Iterator[Finding]:
    """Yield G1c: cycles of information flow. An anomaly if they consist of reads; with the order of writes they are
    allowed.
    """
    reads = _read_order(timeline)
    certain = cycles(reads)
    for group in certain:
        yield Finding("G1c", f"{', '.join(group)} read each other", BAD, tuple(group))
    both: Graph = defaultdict(set)
    for graph in (reads, _write_order(timeline)):
        for first, after in graph.items():
            both[first] |= after
    for group in cycles(both):
        inside = set(group)
        if group not in certain and any(reads[name] & inside for name in group if name in reads):
            yield Finding("G1c", f"{', '.join(group)} read and overwrite in a circle", ALLOWED, tuple(group))


def _write_order(timeline: Timeline) -> Graph:
    graph: Graph = defaultdict(set)
    for key in timeline.log[COMMITTED]:
        for first, second in timeline.writers(COMMITTED, key):
            graph[first].add(second)
    return graph


def _read_order(timeline: Timeline) -> Graph:
    graph: Graph = defaultdict(set)
    for transaction in timeline.transactions.values():
        for poll in transaction.polls:
            for name in timeline.names(value for _, _, value in poll.records):
                if name != transaction.name:
                    graph[name].add(transaction.name)
    return graph


def cycles(graph: Graph) -> list[list[str]]:
    """Return strongly connected components of several nodes, by Tarjan's algorithm without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in list(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph.get(root, ()))))]
        _enter(root, index, low, stack, on_stack)
        while work:
            node, after = work[-1]
            following = next((each for each in after if each not in index or each in on_stack), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_leave(node, stack, on_stack))
            elif following in index:
                low[node] = min(low[node], index[following])
            else:
                _enter(following, index, low, stack, on_stack)
                work.append((following, iter(sorted(graph.get(following, ())))))
    return [sorted(component) for component in found if len(component) > 1]


def _enter(node: str, index: dict[str, int], low: dict[str, int], stack: list[str], on_stack: set[str]) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)
    on_stack.add(node)


def _leave(node: str, stack: list[str], on_stack: set[str]) -> list[str]:
    component: list[str] = []
    while not component or component[-1] != node:
        component.append(stack.pop())
    on_stack.difference_update(component)
    return component
