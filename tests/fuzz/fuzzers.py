"""All fuzzers with a model by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.fuzzing import Fuzzer
from tests.fuzz.group_model import GROUP_FUZZER

FUZZERS: Final[dict[str, Fuzzer]] = {fuzzer.name: fuzzer for fuzzer in (GROUP_FUZZER,)}
