"""Distinguished names as Java writes them: X500Principal.getName(), which is RFC 2253.

The last part of the name comes first: a certificate of /C=DE/O=Example/CN=broker is CN=broker,O=Example,C=DE. A part
whose type has no short name, or whose value is no text, is written as OID=#hex of the value's encoding.
"""

from __future__ import annotations

from typing import Final

from kwire.server.security.tls.der import OBJECT_IDENTIFIER, SEQUENCE, SET, Element, dotted, elements, only

_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""Tags of texts: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SPACES: Final = " \r"


_VERSION: Final = 0xA0
"""Tag of a certificate's version, which is left out for version 1."""
_SUBJECT: Final = 4
"""Position of the subject after serial number, algorithm, issuer and validity."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) in Java's form of RFC 2253. Raises ValueError."""
    parts = elements(only(certificate, SEQUENCE))[:1]
    fields = [each for part in parts for each in _content(part, SEQUENCE) if each.tag != _VERSION]
    if len(fields) <= _SUBJECT:
        raise ValueError("a certificate has no subject")
    return name_of_subject(fields[_SUBJECT].encoded)


def name_of_subject(encoded: bytes) -> str:
    """Return a name (DER) in Java's form of RFC 2253. Raises ValueError for bytes that are no name."""
    parts = elements(only(encoded, SEQUENCE))
    return ",".join("+".join(_attribute(each) for each in _content(part, SET)) for part in reversed(parts))


def _content(element: Element, tag: int) -> list[Element]:
    if element.tag != tag:
        raise ValueError(f"a name has an element of type {element.tag:#x} in place of {tag:#x}")
    return elements(element.content)


def _attribute(attribute: Element) -> str:
    kind, value = _content(attribute, SEQUENCE)
    if kind.tag != OBJECT_IDENTIFIER:
        raise ValueError("an attribute of a name has no type")
    identifier = dotted(kind.content)
    name = _SHORT_NAMES.get(identifier)
    if name is None or value.tag not in _TEXTS:
        return f"{name or identifier}=#{value.encoded.hex()}"
    return f"{name}={escaped(value.content.decode('utf-8', 'replace'))}"


def escaped(text: str) -> str:
    """Return a value with escapes, as Java escapes it."""
    inner = text.strip(_SPACES)
    start = len(text) - len(text.lstrip(_SPACES))
    before, after = (text[:start], text[start + len(inner) :]) if inner else (text, "")
    shown = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in inner)
    return "".join(f"\\{each}" for each in before) + shown + "".join(f"\\{each}" for each in after)
