"""A stand-in for the package gssapi, whose tickets are their principals in plain text, and settings of a listener."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.server.security.sasl.jaas import KERBEROS_MODULE
from tests.server.security.sasl.frames import settings_of

REALM = "EXAMPLE.COM"
MODULE_KEY = "listener.name.sasl.gssapi.sasl.jaas.config"
OFFER = b"wrapped:\x01\x00\x00\x00"


class GSSError(Exception):
    """Any error of the library."""


class Name:
    """Name of a principal."""

    def __init__(self, name: str, kind: str = "") -> None:
        self._name = name

    def canonicalize(self, mechanism: str) -> Name:
        return Name(self._name if "@" in self._name else f"{self._name}@{REALM}")

    def __str__(self) -> str:
        return self._name.encode(errors="surrogateescape").decode()


class Credentials:
    """Keys of a principal; the key tab has one principal in each line."""

    def __init__(self, *, name: Name, mechs: list[str], usage: str, store: dict[str, str]) -> None:
        assert (mechs, usage) == (["kerberos"], "accept")
        key_tab = Path(store["keytab"].removeprefix("FILE:"))
        if str(name.canonicalize("kerberos")) not in key_tab.read_text().splitlines():
            raise GSSError(f"No key table entry found for {name}")


class SecurityContext:
    """Context; `ticket:` begins a token that establishes it, `ticket-without-answer:` one without an answer."""

    def __init__(self, *, creds: Credentials, usage: str) -> None:
        assert usage == "accept"
        self.complete = False
        self.initiator_name = Name("")

    def step(self, token: bytes) -> bytes | None:
        kind, _, principal = token.decode(errors="surrogateescape").partition(":")
        if kind == "more":
            return b"more"
        if not kind.startswith("ticket"):
            raise GSSError("A token was\ninvalid")
        self.complete, self.initiator_name = True, Name(principal)
        return b"mutual" if kind == "ticket" else None

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped:" + message)

    def unwrap(self, token: bytes) -> Any:
        if not token.startswith(b"wrapped:"):
            raise GSSError("A token had an invalid MIC")
        return SimpleNamespace(message=token.removeprefix(b"wrapped:"))


def install(patch: pytest.MonkeyPatch) -> None:
    """Let `import gssapi` find the stand-in."""
    fake = SimpleNamespace(
        Name=Name,
        NameType=SimpleNamespace(kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="kerberos"),
        Credentials=Credentials,
        SecurityContext=SecurityContext,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    patch.setitem(sys.modules, "gssapi", fake)


def key_tab(directory: Path, mode: int = 0o600) -> Path:
    path = directory / "kafka.keytab"
    path.write_text(f"kafka/broker@{REALM}\n")
    path.chmod(mode)
    return path


def module_of(path: Path, **changed: str | None) -> str:
    """Return the login module of a key tab; `changed` are other options, None to leave one out."""
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(path), "principal": f"kafka/broker@{REALM}"}
    shown = " ".join(f'{key}="{value}"' for key, value in (options | changed).items() if value is not None)
    return f"{KERBEROS_MODULE} required {shown};"


def kerberos_settings(module: str, **others: str) -> dict[str, str]:
    """Return the settings of a broker with GSSAPI on its listener; underscores in `others` stand for dots."""
    own = {MODULE_KEY: module, "sasl.kerberos.service.name": "kafka"}
    return settings_of(mechanisms=["GSSAPI"], **others) | own
