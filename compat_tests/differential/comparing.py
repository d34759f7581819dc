"""Differences between two responses: the path of each field, and both values."""

from dataclasses import dataclass
from typing import Any

from compat_tests.differential.lazy import LONG_NAME
from compat_tests.differential.normalising import Names, Own, same_own
from compat_tests.differential.script import Step

LEFT_OUT = "(not there)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    step: Step
    path: str
    """Names and positions, for instance responses.0.partition_responses.1.error_code."""
    kwire: Any
    kafka: Any
    whole: tuple[Any, Any]
    """Both responses as plain values: kwire's and Kafka's."""

    @property
    def api(self) -> str:
        return type(self.step.request).__name__.removesuffix("Request")

    def __str__(self) -> str:
        kwire, kafka = (_short(_around(whole, self.path), 700) for whole in self.whole)
        return (
            f"{self.api} {self.path}: kwire {_short(self.kwire)}, Kafka {_short(self.kafka)}\n"
            f"  {self.step}\n  kwire: {kwire}\n  Kafka: {kafka}"
        )


def _around(whole: Any, path: str) -> Any:
    """Return the innermost structure that contains the field of the path."""
    inner = whole
    for name in path.split("."):
        if isinstance(inner, dict) and not isinstance(inner.get(name), dict | list):
            return inner
        try:
            inner = inner[int(name)] if isinstance(inner, list) else inner[name]
        except (KeyError, IndexError, TypeError):
            return inner
    return inner


def _short(value: Any, most: int = 300) -> str:
    text = LONG_NAME.sub(r"\1...", repr(value))
    return text if len(text) <= most else text[:most] + "..."


def differences(step: Step, kwire: Any, kafka: Any, names: tuple[Names, Names]) -> list[Difference]:
    return [
        Difference(step=step, path=path, kwire=ours, kafka=theirs, whole=(kwire, kafka))
        for path, ours, theirs in _walk("", kwire, kafka, names)
    ]


def _walk(path: str, ours: Any, theirs: Any, names: tuple[Names, Names]) -> list[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for name in ours.keys() | theirs.keys():
            found += _walk(_join(path, name), ours.get(name, LEFT_OUT), theirs.get(name, LEFT_OUT), names)
        return sorted(found, key=lambda each: each[0])
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            each for index in range(len(ours)) for each in _walk(_join(path, index), ours[index], theirs[index], names)
        ]
    if isinstance(ours, Own) and isinstance(theirs, Own):
        return [] if same_own(ours, theirs, names) else [(path, ours, theirs)]
    return [] if ours == theirs and type(ours) is type(theirs) else [(path, ours, theirs)]


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
