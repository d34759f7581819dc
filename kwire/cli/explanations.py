"""Explanations of configuration keys: short lines, the full text of one key, and the page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kwire.cluster.configs.broker import AUTHORIZER_KEYS, DYNAMIC_ONLY_KEYS, THEMES
from kwire.cluster.configs.client_metrics import CLIENT_METRICS_KEYS
from kwire.cluster.configs.config_keys import ConfigKey, Update, Use
from kwire.cluster.configs.group import GROUP_KEYS
from kwire.cluster.configs.topic import TOPIC_KEYS

COMMAND = "kwire config explain --markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Group of related keys of one kind of resource."""

    kind: str
    title: str
    keys: tuple[ConfigKey, ...]


SECTIONS = (
    Section(kind="topic", title="Topics", keys=tuple(TOPIC_KEYS.values())),
    *(Section(kind="broker", title=f"Brokers: {title}", keys=tuple(keys)) for title, keys in THEMES.items()),
    Section(kind="broker", title="Brokers: standard authorizer", keys=tuple(AUTHORIZER_KEYS.values())),
    Section(kind="broker", title="Brokers: set while they run only", keys=tuple(DYNAMIC_ONLY_KEYS.values())),
    Section(kind="group", title="Groups", keys=tuple(GROUP_KEYS.values())),
    Section(kind="client-metrics", title="Client metrics subscriptions", keys=tuple(CLIENT_METRICS_KEYS.values())),
)
KINDS = ("topic", "broker", "group", "client-metrics")


def chosen(kinds: Iterable[str], word: str) -> Iterator[tuple[str, ConfigKey]]:
    """Yield (kind, key) for the keys of these kinds that have the word in their name or meaning."""
    listed = set(kinds)
    for section in SECTIONS:
        if section.kind in listed:
            for key in section.keys:
                if word.lower() in key.name or word.lower() in key.doc.lower():
                    yield section.kind, key


def line(kind: str, key: ConfigKey) -> str:
    """Return a key in one line of a list."""
    return f"{key.name:<58} {kind:<14} {key.use.value:<21} {shown(key.default)}"


def shown(text: str | None) -> str:
    """Return a value as text that distinguishes no value from an empty one."""
    return "none" if text is None else text or "empty"


def _shown(key: ConfigKey, given: Mapping[str, str]) -> str:
    return "[hidden]" if key.sensitive else given[key.name]


def explanation(kind: str, key: ConfigKey, given: Mapping[str, str]) -> str:
    """Return the full explanation of a key; `given` are the settings of a file, to show the key's value."""
    rows = [
        ("of", f"a {kind.replace('-', ' ')}" + (" subscription" if kind == "client-metrics" else "")),
        ("type", key.type.name.lower()),
        ("default", _default(key)),
        ("values", key.check.text.strip() if key.check else "any"),
        ("changes", _changes(kind, key)),
        ("kwire", _use(key)),
    ]
    if key.synonyms:
        rows.append(("default from", f"the broker's {', '.join(key.synonyms)}"))
    gives = [topic.name for topic in TOPIC_KEYS.values() if key.name in topic.synonyms] if kind == "broker" else []
    if gives:
        rows.append(("default of", f"the topic's {', '.join(gives)}"))
    if kind == "broker" and given:
        rows.append(
            ("value", f"{_shown(key, given)}, from the file" if key.name in given else f"{_default(key)}, default")
        )
    body = "\n".join(f"    {name:<13} {text}" for name, text in rows)
    return f"{key.name}\n    {key.doc}\n{body}"


def _default(key: ConfigKey) -> str:
    own = shown(key.default)
    return own if key.kafka_default is None else f"{own} (Kafka: {shown(key.kafka_default)})"


def _changes(kind: str, key: ConfigKey) -> str:
    if kind != "broker":
        return "at any time"
    if key.update is Update.READ_ONLY:
        return "read-only: at the next start"
    return f"{key.update.value}: while the broker runs"


def _use(key: ConfigKey) -> str:
    return f"{key.use.value}, any value but the default" if key.use is Use.REJECTED else key.use.value


def page() -> str:
    """Return the content of docs/configuration.md."""
    return "\n".join([*_introduction(), *(line for section in SECTIONS for line in _table(section))]) + "\n"


def _introduction() -> Iterator[str]:
    counts = {use: sum(key.use is use for section in SECTIONS for key in section.keys) for use in Use}
    own = sum(key.is_own for section in SECTIONS for key in section.keys)
    of_kafka = sum(counts.values()) - own
    yield "# Configuration"
    yield ""
    yield f"Made by `{COMMAND}`; a test compares this page with the command's output."
    yield ""
    yield f"kwire knows the {of_kafka} configuration keys of Apache Kafka 4.3.1, with their types, checks and messages,"
    yield f"and has {own} of its own."
    yield f"**Honoured** ({counts[Use.HONOURED]}): the key has the effect that its meaning describes."
    yield f"**Accepted and ignored** ({counts[Use.IGNORED]}): checked, described, and without effect, because kwire"
    yield "has no part that the key configures."
    yield f"**Rejected** ({counts[Use.REJECTED]}): any value but the default stops the start, and is rejected as a"
    yield "dynamic change, because a client or operator relies on its effect."
    yield "An unknown key is logged once, as a warning."
    yield ""
    yield "*Changes* says when a broker takes a new value: at the next start (read-only), or while it runs, set for one"
    yield "broker (per-broker) or for all (cluster-wide). Internal keys are in italics. `kwire config explain KEY`"
    yield "shows one key, `--search WORD` searches for keys."


def _table(section: Section) -> Iterator[str]:
    yield ""
    yield f"## {section.title}"
    yield ""
    has_changes = section.kind == "broker"
    yield "| key | type | default | values |" + (" changes |" if has_changes else "") + " kwire | meaning |"
    yield "|---|---|---|---|" + ("---|" if has_changes else "") + "---|---|"
    for key in section.keys:
        name = f"*{key.name}*" if key.internal else key.name
        values = key.check.text.strip() if key.check else ""
        cells = [name, key.type.name.lower(), _default(key), values]
        cells += [key.update.value] if has_changes else []
        yield "| " + " | ".join(_cell(cell) for cell in [*cells, key.use.value, key.doc]) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*,", "\\*,").replace("* ", "\\* ")
