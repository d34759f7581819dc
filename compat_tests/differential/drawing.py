"""Random requests of any API: a walk over the declared schema draws each field's value by the rule for its name.

A rule is named "Class.field" or "field"; "Class.field" has precedence. For an array of structs only "Class.field"
applies, and returns the number of elements. A rule gets the random source and the scope. The scope has the values that
were drawn before it in the same request, by field name: a topic id can then match the topic name above it.
"""

from collections.abc import Callable
from typing import Any

from compat_tests.differential.random_source import INT8, INT16, INT32, INT64, MISSING_ID, NO_ID, RandomSource
from kwire.protocol.schema import Array, Schema, schema_of

Scope = dict[str, Any]
Rule = Callable[[RandomSource, Scope], Any]

NULL_SHARE = 0.08
SPOILT_SHARE = 0.06
#: A wrong value here would make a broker wait, or start an expiry at an unknown time.
NEVER_SPOILT = {"max_wait_ms", "timeout_ms", "min_bytes", "session_timeout_ms", "rebalance_timeout_ms", "replica_id"}
#: A wrong value makes Kafka fail without a response, or before its session counts the request.
NEVER_SPOILT |= {"records", "session_id", "isolation_level", "topic", "topic_id"}
#: With a negative size, Kafka fails over the partitions and changes those after them.
NEVER_SPOILT |= {"max_bytes"}
#: If a consumer's subscription is unreadable, Kafka's group never answers again.
NEVER_SPOILT |= {"metadata"}
#: The meaning of an epoch below -1 is undefined.
NEVER_SPOILT |= {"leader_epoch", "current_leader_epoch", "last_fetched_epoch", "partition_max_bytes"}

#: Requests that change nothing: only these may name a thing twice.
MAY_REPEAT = {
    f"{name}Request"
    for name in ("ListOffsets", "DescribeConfigs", "DescribeGroups", "OffsetFetch", "DescribeProducers", "Metadata")
}
#: Fields that identify the thing that an element is about.
IDENTITY = ("name", "topic", "topic_name", "group_id", "resource_type", "resource_name", "partition_index", "partition")
IDENTITY += ("transactional_id", "index", "entity_type", "user_name", "member_id", "feature", "key", "entity")

PARTITION_LISTS = {"partitions", "partition_indexes", "partition_data"}

BOUNDARIES: dict[str, tuple[Any, ...]] = {
    "int8": (-1, 0, 1, 3, 99, *INT8),
    "uint16": (0, 1, 9092, 65535),
    "int16": (-1, 0, 1, 2, *INT16),
    "int32": (-1, 0, 1, 2, 1000, *INT32),
    "int64": (-1, 0, 1, 2, 10**12, *INT64),
    "float64": (-1.0, 0.0, 0.5, 1e300, 1024.0),
    "boolean": (False, True),
    "string": ("", " ", "nothing", "x" * 255, "ünï-code", "a,b", "*"),
    "bytes": (b"", b"\x00", b"junk" * 9),
    "uuid": (NO_ID, MISSING_ID),
    "records": (b"", b"junk"),
}


def draw(request: type, version: int, random_source: RandomSource, rules: dict[str, Rule]) -> Any:
    """Draw a request. Fields that the version lacks are drawn too, and omitted when the request is sent."""
    scope: Scope = {"version": version, "may repeat": request.__name__ in MAY_REPEAT}
    return _draw(schema_of(request), version, random_source, rules, scope)


def _draw(schema: Schema, version: int, random_source: RandomSource, rules: dict[str, Rule], outer: Scope) -> Any:
    values: dict[str, Any] = {}
    scope = dict(outer)
    for spec in schema.fields:
        nullable = version in spec.nullable
        rule = rules.get(f"{schema.name}.{spec.name}") or (None if _is_structs(spec.type) else rules.get(spec.name))
        if rule is not None and not _is_structs(spec.type):
            value = rule(random_source, scope)
        elif nullable and random_source.often(NULL_SHARE):
            value = None
        else:
            scope["field"] = spec.name
            value = _value(spec.type, version, random_source, rules, scope, rule)
        if random_source.often(SPOILT_SHARE / 4) and spec.name not in NEVER_SPOILT and not _is_structs(spec.type):
            value = _spoilt(spec.type, random_source, nullable=nullable)
        values[spec.name] = scope[spec.name] = value
    return schema.cls(**values)


def _is_structs(kind: Any) -> bool:
    return isinstance(kind, Schema) or (isinstance(kind, Array) and isinstance(kind.element, Schema))


def _value(
    kind: Any, version: int, random_source: RandomSource, rules: dict[str, Rule], scope: Scope, rule: Rule | None
) -> Any:
    if isinstance(kind, Schema):
        return _draw(kind, version, random_source, rules, scope)
    if isinstance(kind, Array):
        if isinstance(kind.element, Schema):
            count = rule(random_source, scope) if rule else None
            if count is not None:
                return _once([_draw(kind.element, version, random_source, rules, scope) for _ in range(count)])
        least = 0 if random_source.often(0.03) or not scope["field"].startswith("partition") else 1
        drawn = _once(
            random_source.several(lambda: _value(kind.element, version, random_source, rules, scope, None), least=least)
        )
        if drawn and scope["may repeat"] and random_source.often(0.05):
            drawn.append(drawn[0])
        return drawn
    return random_source.choice(BOUNDARIES[kind.name])


def _once(drawn: list[Any]) -> list[Any]:
    """Remove elements with the identity of an earlier element."""
    return list({_identity(each): each for each in drawn}.values())


def _identity(element: Any) -> str:
    if hasattr(element, "group_id"):
        return repr(element.group_id)
    named = [] if isinstance(element, str) else [getattr(element, name, None) for name in IDENTITY]
    return repr(named if any(each is not None for each in named) else element)


def repeats(message: Any) -> bool:
    """Return True if a request names something twice."""
    for value in (getattr(message, name) for name in getattr(message, "__slots__", ())):
        if isinstance(value, list) and (len(_once(value)) < len(value) or any(repeats(each) for each in value)):
            return True
    return False


def names_nothing(message: Any) -> bool:
    """Return True if a request names a topic without partitions."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name in PARTITION_LISTS and value == []:
            return True
        if isinstance(value, list) and any(names_nothing(each) for each in value):
            return True
    return False


def _spoilt(kind: Any, random_source: RandomSource, *, nullable: bool) -> Any:
    if nullable and random_source.often(0.3):
        return None
    if isinstance(kind, Array):
        return _once([random_source.choice(BOUNDARIES[kind.element.name]) for _ in range(random_source.randrange(3))])
    return random_source.choice(BOUNDARIES[kind.name])
