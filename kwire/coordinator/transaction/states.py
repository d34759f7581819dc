"""The states of a transactional id, numbered and named as Kafka stores and shows them.

                     first partition            EndTxn                    all markers written
      Empty -----------------------> Ongoing ----------> PrepareCommit ----------------------> CompleteCommit
        ^                              ^  |    commit                                             |
        |                              |  | abort, timeout, InitProducerId                        |
        | InitProducerId               |  +-------------> PrepareAbort -----------------------> CompleteAbort
        |                              +-- first partition of the next one ----------------------+
        +-----------------------------------------------------------------------------------------+

With an epoch for each transaction (version 2) an abort without partitions goes to PrepareAbort from Empty and from the
complete states as well. PrepareCommit and PrepareAbort are decisions: once stored they are never turned.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Never stored: a transactional id that is forgotten has a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """Never stored."""


_S = TransactionState

STATE_NAMES: Final[Mapping[TransactionState, str]] = {
    _S.EMPTY: "Empty",
    _S.ONGOING: "Ongoing",
    _S.PREPARE_COMMIT: "PrepareCommit",
    _S.PREPARE_ABORT: "PrepareAbort",
    _S.COMPLETE_COMMIT: "CompleteCommit",
    _S.COMPLETE_ABORT: "CompleteAbort",
    _S.DEAD: "Dead",
    _S.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open and none is ending."""
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided, and some partition may not have its marker yet."""

_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: AT_REST,
    _S.ONGOING: AT_REST | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: AT_REST | {_S.ONGOING},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
}


def may_follow(before: TransactionState, after: TransactionState) -> bool:
    """Whether a state may come right after another."""
    return before in _PREVIOUS[after]
