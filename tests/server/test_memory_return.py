"""Options of glibc's malloc, and systems without glibc."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest

from kwire.server.network.memory import memory_return
from kwire.server.network.memory.memory_return import LARGE_BYTES, TOP_BYTES, MemoryReturn


def no_library(name: object) -> object:
    raise OSError("no such library")


def test_both_thresholds_are_fixed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed: dict[int, int] = {}

    def mallopt(option: int, value: int) -> int:
        fixed[option] = value
        return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    assert memory_return.fix_malloc_thresholds()
    assert fixed == {-3: LARGE_BYTES, -1: TOP_BYTES}  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h


@pytest.mark.parametrize("library", [no_library, lambda _: SimpleNamespace()])
def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library)
    assert not memory_return.fix_malloc_thresholds()
    assert memory_return.find_trim() is None
    memory = MemoryReturn(resident=lambda: 1 << 40)
    assert not memory.is_due
    memory.give_back()


def test_a_system_that_does_not_say_how_large_a_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_return, "STATUS", tmp_path / "statm")
    assert memory_return.resident_bytes() == 0
    (tmp_path / "statm").write_text("")
    assert memory_return.resident_bytes() == 0
