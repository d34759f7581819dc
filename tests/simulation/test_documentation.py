"""Examples in docs/simulation.md: they run as described."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL) if PAGE.exists() else []
if not EXAMPLES:
    pytest.skip("the documentation is not beside the tests", allow_module_level=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: re.findall(r"def test_(\w+)", text)[-1])
def test_each_example_of_the_page_runs(example: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()
