"""States of a transactional id, with Kafka's stored numbers and displayed names.

                     first partition            EndTxn                    all markers written
      Empty -----------------------> Ongoing ----------> PrepareCommit ----------------------> CompleteCommit
        ^                              ^  |    commit                                             |
        |                              |  | abort, timeout, InitProducerId                        |
        | InitProducerId               |  +-------------> PrepareAbort -----------------------> CompleteAbort
        |                              +-- first partition of the next one ----------------------+
        +-----------------------------------------------------------------------------------------+

With an epoch per transaction (transaction.version 2), an abort without partitions also goes from Empty and the complete
states to PrepareAbort. PrepareCommit and PrepareAbort are decisions, which are never changed once stored.
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
    """Never stored: a removed transactional id has a tombstone."""
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

NOT_OPEN: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""States without an open or ending transaction."""
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""States of a decided transaction, whose markers may not all be written."""

_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: NOT_OPEN,
    _S.ONGOING: NOT_OPEN | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: NOT_OPEN | {_S.ONGOING},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
}


def can_follow(before: TransactionState, after: TransactionState) -> bool:
    """Return True if a state may directly follow another."""
    return before in _PREVIOUS[after]
