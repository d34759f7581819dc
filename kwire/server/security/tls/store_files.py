"""Files of key stores and trust stores, and the blocks of PEM texts.

Everything here may wait for a disk: it is called in a worker, not on the event loop.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kwire.server.security.tls.tls_settings import TlsRejected

STORE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest store. The trust store of Java itself, with 150 authorities, has 200 KB."""
_LINE: Final = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]+)-----")


Stamp = tuple[int, int, int] | None
"""Inode, size and modification time of a file; None without a file."""


class PemBlock(NamedTuple):
    """Block of a PEM text: its label, such as CERTIFICATE, and its content as DER."""

    label: str
    content: bytes


def read_store(key: str, path: str, *, is_secret: bool) -> bytes:
    """Return the content of a store that the setting `key` names. Raises TlsRejected.

    A file with a private key that every user of the machine can read is refused. Apache Kafka reads it: this is a
    listed difference. A file that only a group can read is accepted, as in mounted secrets of containers.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise TlsRejected(key, f"{path} is not a file")
            if is_secret and status.st_mode & stat.S_IROTH:
                raise TlsRejected(
                    key, f"{path} has a private key and is readable by every user of this machine; chmod o-rwx it"
                )
            data = file.read(STORE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise TlsRejected(key, f"{path} cannot be read: {reason or error}") from None
    if len(data) > STORE_BYTES_MAX:
        raise TlsRejected(key, f"{path} is larger than {STORE_BYTES_MAX} bytes")
    return data


def stamp_of(path: str | None) -> Stamp:
    """Return the stamp of a file, which differs when its content has changed."""
    try:
        status = None if path is None else Path(path).stat()
    except (OSError, ValueError):
        return None
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a named pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def pem_blocks(text: str) -> list[PemBlock]:
    """Return the blocks of a PEM text. Raises ValueError for content that is not base64.

    As in Apache Kafka, line breaks may be spaces: a value in a properties file is often one line.
    """
    found = []
    for label, content in _contents(text):
        if "Proc-Type" in content:
            raise ValueError("it has an encrypted key of the old form (Proc-Type); convert it: openssl pkcs8 -topk8")
        try:
            found.append(PemBlock(label, base64.b64decode("".join(content.split()), validate=True)))
        except binascii.Error:
            raise ValueError(f"its {label} is not valid base64") from None
    return found


def _contents(text: str) -> Iterator[tuple[str, str]]:
    """Yield label and text of each block: from the last BEGIN line to the first END line with its label."""
    begin = None
    for line in _LINE.finditer(text):
        if line[1] == "BEGIN":
            begin = line
        elif begin is not None and begin[2] == line[2]:
            yield line[2], text[begin.end() : line.start()]
            begin = None
