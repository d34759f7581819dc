"""Limit of open files: the server raises the low default of shells."""

from __future__ import annotations

import resource

import pytest

from kwire.cli import server_command as cli

INFINITY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        ((1024, 4096), [(4096, 4096)]),
        ((256, INFINITY), [(100_000, INFINITY)]),
        ((1024, 500_000), [(100_000, 500_000)]),
        ((4096, 4096), []),
        ((INFINITY, INFINITY), []),
    ],
)
def test_the_limit_of_open_files_is_raised_as_far_as_allowed(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], taken: list[tuple[int, int]]
) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: calls.append(wanted))
    cli._allow_open_files()
    assert calls == taken


def test_a_system_that_forbids_it_is_no_reason_not_to_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def forbid(_: int, wanted: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, INFINITY))
    monkeypatch.setattr(resource, "setrlimit", forbid)
    cli._allow_open_files()
    assert "stays at 256" in caplog.text
