"""Names of cipher suites: Kafka has IANA's, OpenSSL its own.

TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256. The suites of TLS 1.3 have one name, and Python
before 3.15 cannot select among them: a list names all of them, or none, which turns TLS 1.3 off, as in Java.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from kwire.server.security.tls.tls_settings import TlsRejected

KEY: Final = "ssl.cipher.suites"
TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2. Raises TlsRejected for a text that has no such form."""
    exchange, found, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not found or not suite.startswith("TLS_"):
        raise TlsRejected(KEY, f"{suite!r} is not the name of a cipher suite")
    parts = [] if exchange == "RSA" else exchange.split("_")
    words = cipher.replace("AES_", "AES").replace("CAMELLIA_", "CAMELLIA").replace("ARIA_", "ARIA").split("_")
    if "POLY1305" in words:
        words.remove("SHA256")
    return "-".join(parts + [word for word in words if word != "CBC"])


def restrict_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Let the context use only these suites; all of OpenSSL's defaults for an empty list. Raises TlsRejected."""
    if not suites:
        return
    new = [suite for suite in suites if suite in TLS_1_3]
    old = [suite for suite in suites if suite not in TLS_1_3]
    for suite in old:
        _select(context, [suite])  # alone: OpenSSL skips unknown names in a list
    if old:
        _select(context, old)
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not new:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif len(new) < len(TLS_1_3) and context.maximum_version != ssl.TLSVersion.TLSv1_2:
        _select_new(context, new)
    if context.minimum_version > context.maximum_version > 0:
        raise TlsRejected(KEY, "has no suite of the versions in ssl.enabled.protocols")


def _select(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    try:
        context.set_ciphers(":".join(openssl_name(suite) for suite in suites))
    except ssl.SSLError:
        raise TlsRejected(KEY, f"{', '.join(suites)} is not served by {ssl.OPENSSL_VERSION}") from None


def _select_new(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Select suites of TLS 1.3, from Python 3.15 on. Raises TlsRejected before."""
    select = getattr(context, "set_ciphersuites", None)
    if select is None:
        raise TlsRejected(
            KEY, f"this Python cannot select suites of TLS 1.3; name all of {', '.join(TLS_1_3)}, or none of them"
        )
    select(":".join(suites))
