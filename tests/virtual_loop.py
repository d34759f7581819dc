"""Re-export of the loop with virtual time (kwire.simulation.loop) for tests."""

from __future__ import annotations

from kwire.simulation.loop import WALL_START_MS, DeadlockError, VirtualClock, VirtualLoop, virtual_loop

__all__ = ["WALL_START_MS", "DeadlockError", "VirtualClock", "VirtualLoop", "virtual_loop"]
