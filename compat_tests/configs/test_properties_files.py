"""Properties files are parsed as by java.util.Properties: 10,000 random files, and files that kwire writes."""

import base64
import random
import subprocess
from pathlib import Path

from compat_tests.configs.truth import QUIET
from kwire.properties_files import escape_value, read_properties

SOURCE = Path(__file__).with_name("Properties.java")
FILES = 10_000
PIECES = (
    *("a", "log.dirs", "Z", "0", "é", "漢", "😀", "value"),
    *("=", ":", " ", "\t", "\f", "#", "!", "\\", "\\\\"),
    *("\n", "\r", "\r\n", "\\\n", "\\\r\n", "\\\n   "),
    *("\\:", "\\=", "\\#", "\\ ", "\\t", "\\n", "\\r", "\\f", "\\b", "\\z", "\\u0041", "\\u00e9", "\\ud83d\\ude00"),
    *("\\u12", "\\uzzzz", "\\u", "\x0b", "\x1c", "\x85", "\u2028"),
)
"""Pieces of random files. The last line has malformed escapes, and characters that end a line only in Python."""
MALFORMED = "malformed"
BROKEN = ("\\u12", "\\uzzzz", "\\u")
SOUND = tuple(piece for piece in PIECES if piece not in BROKEN)


def draw(random_source: random.Random) -> str:
    """Return a random file; a malformed escape is an error for both parsers, so most files have none."""
    pieces = PIECES if random_source.random() < 0.1 else SOUND
    return "".join(random_source.choice(pieces) for _ in range(random_source.randrange(1, 30)))


def ask_java(files: list[str]) -> list[str]:
    text = "".join(base64.b64encode(file.encode()).decode() + "\n" for file in files)
    done = subprocess.run(["java", *QUIET, str(SOURCE)], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def read_here(file: str) -> str:
    try:
        pairs = read_properties(file)
    except ValueError:
        return MALFORMED
    in_order = sorted(pairs.items(), key=lambda pair: units(pair[0]))
    return "".join(f"{units(key)}={units(value)} " for key, value in in_order)


def units(text: str) -> str:
    """Return the UTF-16 code units in hexadecimal."""
    return text.encode("utf-16-be", "surrogatepass").hex()


def test_random_files_are_read_as_java_reads_them():
    random_source = random.Random(12)
    files = [draw(random_source) for _ in range(FILES)]
    different = [
        (file, here, there)
        for file, here, there in zip(files, map(read_here, files), ask_java(files), strict=True)
        if here != there
    ]
    assert different[:5] == []
    malformed = sum(read_here(file) == MALFORMED for file in files)
    assert 100 < malformed < FILES / 2


def test_values_that_we_write_are_read_back_by_both():
    random_source = random.Random(13)
    values = [draw(random_source) for _ in range(1000)]
    files = [f"key={escape_value(value)}\n" for value in values]
    assert [read_properties(file) for file in files] == [{"key": value} for value in values]
    assert ask_java(files) == [f"{units('key')}={units(value)} " for value in values]
