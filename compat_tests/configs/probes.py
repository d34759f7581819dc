"""Test values for a configuration key: valid, invalid, and at the limits of its validator."""

import re

INTEGERS = ("1", "0", "-1", "-2", "-3", "7", "500", "600000", "2147483647", "2147483648", "9223372036854775807")
ODD_INTEGERS = ("9223372036854775808", "abc", "", "1.5", " 7 ", "1_000", "+5", "0x10")
VALUES = {
    "INT": INTEGERS + ODD_INTEGERS,
    "SHORT": ("32767", "32768", *INTEGERS, *ODD_INTEGERS),
    "LONG": INTEGERS + ODD_INTEGERS,
    "DOUBLE": ("0.5", "-1", "0", "1", "1.5", "1e3", "NaN", "Infinity", "abc", "", " 0.5 ", "1_0"),
    "BOOLEAN": ("true", "FALSE", " true ", "yes", "1", ""),
    "STRING": ("", "nonsense", " padded ", "gzip", "GZIP", "LogAppendTime", "CreateTime", "logappendtime"),
    "LIST": ("", "a", "a,a", "a,,b", " a , b ", "compact", "delete,compact", "delete,delete", "*", "0:1,1:1", "0:x"),
    "CLASS": ("java.lang.Object", "no.such.Class", ""),
    "PASSWORD": ("secret", ""),
}


def values_for(key):
    """Return the values to test for a key as Apache Kafka defines it."""
    tried = dict.fromkeys(VALUES[key["type"]])
    for number in re.findall(r"-?\d+", key["validator"] or "") if key["type"] in {"INT", "SHORT", "LONG"} else ():
        tried |= dict.fromkeys(str(int(number) + step) for step in (-1, 0, 1))
    if key["type"] == "STRING":
        tried |= dict.fromkeys(re.findall(r"\w+", key["validator"] or ""))
    if key["default"] is not None:
        tried[key["default"]] = None
    return list(tried)
