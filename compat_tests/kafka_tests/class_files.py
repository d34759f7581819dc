"""Reader of class files in a jar: names, superclasses, and the constants to which each class refers."""

import struct
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

INTERFACE, ABSTRACT = 0x200, 0x400
_SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
"""Size of a constant by its tag, in bytes; a string (tag 1) contains its own length."""


@dataclass(frozen=True, slots=True)
class ClassFile:
    name: str
    superclass: str
    is_concrete: bool
    content: bytes


def parse(content: bytes) -> ClassFile:
    strings: dict[int, str] = {}
    classes: dict[int, int] = {}
    (count,) = struct.unpack_from(">H", content, 8)
    at, index = 10, 1
    while index < count:
        tag = content[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", content, at + 1)
            strings[index] = content[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            if tag == 7:
                (classes[index],) = struct.unpack_from(">H", content, at + 1)
            at += _SIZES[tag]
        index += 2 if tag in (5, 6) else 1
    flags, this, superclass = struct.unpack_from(">HHH", content, at)
    name, super_name = (strings[classes[each]] if each else "" for each in (this, superclass))
    return ClassFile(name, super_name, not flags & (INTERFACE | ABSTRACT), content)


@cache
def classes_of(jar: Path) -> dict[str, ClassFile]:
    """Return the top-level classes of a jar by name, with slashes."""
    with zipfile.ZipFile(jar) as files:
        names = [each for each in sorted(files.namelist()) if each.endswith(".class") and "$" not in each]
        parsed = [parse(files.read(each)) for each in names]
    return {each.name: each for each in parsed}


def ancestry(jar: Path, name: str) -> list[ClassFile]:
    """Return a class and those of its superclasses that are in the same jar."""
    classes, found = classes_of(jar), []
    while name in classes:
        found.append(classes[name])
        name = classes[name].superclass
    return found
