"""Planted secrets: they may be in no log line, in any form in which code might print them."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable

import pytest


def forms(secret: bytes) -> list[bytes]:
    """Return the forms in which a log line or a file might contain a secret."""
    return [secret, base64.b64encode(secret).rstrip(b"="), secret.hex().encode(), repr(secret)[2:-1].encode()]


def log_everything(caplog: pytest.LogCaptureFixture) -> None:
    """Record the lines of all loggers, at the lowest level."""
    caplog.set_level(1)
    caplog.set_level(1, "kwire")


def found_in_logs(caplog: pytest.LogCaptureFixture, secrets: Iterable[bytes]) -> list[str]:
    """Return the log lines, with tracebacks and arguments, that have a secret."""
    formatter = logging.Formatter()
    lines = [f"{formatter.format(record)} {record.__dict__}" for record in caplog.records]
    wanted = [form.decode("latin-1") for secret in secrets for form in forms(secret)]
    return [line for line in lines if any(form in line for form in wanted)]
