"""The loop with virtual time, where the tests look for it; it is kwire.simulation.loop's."""

from __future__ import annotations

from kwire.simulation.loop import WALL_START_MS, DeadlockError, VirtualClock, VirtualLoop, virtual_loop

__all__ = ["WALL_START_MS", "DeadlockError", "VirtualClock", "VirtualLoop", "virtual_loop"]
