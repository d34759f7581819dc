r"""Properties files as java.util.Properties reads them: escapes, continued lines, `=`, `:` or a blank as separator.

The library javaproperties reads them; compat_tests/configs/test_properties_files.py compares it with Java.
Files are UTF-8; Kafka takes them for ISO 8859-1, so that its users write `\uXXXX`, which is understood here too.
"""

from __future__ import annotations

import javaproperties


def read_properties(text: str) -> dict[str, str]:
    r"""Return the keys and values of a properties file; of a key that appears twice, the last value.

    Raises ValueError for a malformed \uXXXX escape, where Java raises IllegalArgumentException.
    """
    try:
        return dict(javaproperties.loads(text))
    except javaproperties.InvalidUEscapeError as error:
        raise ValueError(f"{error.escape} is no \\uXXXX escape") from None


def escape_value(value: str) -> str:
    """Return a value as it is written after `key=`, so that it reads as it was; `:` and `=` need no escape there."""
    escaped = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    escaped = escaped.replace("\f", "\\f")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
