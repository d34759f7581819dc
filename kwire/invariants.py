"""Broken invariants: failed assertions about kwire's own state (docs/decisions/0013).

A client's request never ends a process. State that a log can rebuild is rebuilt from it. A failed assertion in the
packages that own durable data ends the broker, because its next writes may be wrong.
"""

from __future__ import annotations

import traceback

BROKEN_STATE: tuple[type[Exception], ...] = (AssertionError, LookupError)
"""Exceptions for an inconsistent state of a state machine: a failed assertion, or a missing entry that must exist."""
_OWNERS_OF_DURABLE_DATA = ("kwire.log", "kwire.cluster")
_STATELESS = ("kwire.protocol", "kwire.seams", "kwire.invariants")


def is_broken_invariant(error: BaseException) -> bool:
    """Return True for a failed assertion: the state in memory may be wrong."""
    return isinstance(error, AssertionError)


def threatens_durable_data(error: BaseException) -> bool:
    """Return True for a failed assertion in a package that owns durable data (kwire.log, kwire.cluster)."""
    if not is_broken_invariant(error):
        return False
    owner = ""
    trace = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if _belongs_to(module, ("kwire",)) and not _belongs_to(module, _STATELESS):
            owner = module
        trace = trace.tb_next
    return _belongs_to(owner, _OWNERS_OF_DURABLE_DATA)


def failure_reason(failure: BaseException) -> str:
    """Return the failure's message; without one, as for a bare assertion, its type and place."""
    if str(failure):
        return str(failure)
    frames = traceback.extract_tb(failure.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(failure).__name__}{place}"


def _belongs_to(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
