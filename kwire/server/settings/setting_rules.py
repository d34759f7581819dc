"""Rules across several broker settings, checked at start and before a dynamic change.

The messages are Apache Kafka's, because tools and users search for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kwire.cluster.configs.topic import TOPIC_KEYS
from kwire.cluster.configs.topic_configs import topic_default

_MEGABYTE = 1024 * 1024
_HOST = r"[0-9a-zA-Z\-%._:]*"
_INT32_MAX = 2**31 - 1
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class RuleBrokenError(ValueError):
    """Error of inconsistent settings. `reason` omits the prefix that Kafka adds to requirements."""

    def __init__(self, reason: str, *, prefix: str = "") -> None:
        super().__init__(prefix + reason)
        self.reason = reason


def check_rules(settings: Mapping[str, Any]) -> None:
    """Raise RuleBrokenError if a broker could not have these settings."""
    _check_logs(settings)
    _check_cleaner(settings)
    _check_replication(settings)
    _check_connections(settings)
    _check_groups(settings)
    for kind in ("consumer", "share", "streams"):
        _check_group_kind(settings, kind)
    _check_share_records(settings)
    _check_super_users(settings)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RuleBrokenError(message, prefix="requirement failed: ")


def _agree(holds: bool, message: str) -> None:
    if not holds:
        raise RuleBrokenError(message)


def _check_logs(settings: Mapping[str, Any]) -> None:
    roll, jitter, retention = (
        topic_default(TOPIC_KEYS[name], settings) for name in ("segment.ms", "segment.jitter.ms", "retention.ms")
    )
    _require(roll >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(jitter >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        retention >= 1 or retention == -1, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    )
    directories = settings["log.dirs"] or settings["log.dir"]
    missing = [name for name in settings["cordoned.log.dirs"] or () if name not in (*directories, "*")]
    _require(
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}",
    )


def _check_cleaner(settings: Mapping[str, Any]) -> None:
    threads = settings["log.cleaner.threads"]
    if threads == 0:
        raise RuleBrokenError("/ by zero")
    _require(
        settings["log.cleaner.dedupe.buffer.size"] // threads > _MEGABYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _check_replication(settings: Mapping[str, Any]) -> None:
    wait = settings["replica.fetch.wait.max.ms"]
    _require(
        wait <= settings["replica.socket.timeout.ms"],
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait <= settings["replica.lag.time.max.ms"],
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )
    selector = settings["replica.selector.class"]
    _agree(
        selector in (None, "", LEADER_SELECTOR, RACK_AWARE_SELECTOR),
        f"replica.selector.class: {selector} is not served, only {LEADER_SELECTOR} and {RACK_AWARE_SELECTOR}",
    )


def _check_connections(settings: Mapping[str, Any]) -> None:
    queued = settings["queued.max.request.bytes"]
    _require(
        queued <= 0 or queued >= settings["socket.request.max.bytes"],
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = connection_overrides(settings["max.connections.per.ip.overrides"])
    if settings["max.connections.per.ip"] == 0:
        _require(
            bool(overrides),
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        )
    wrong = [host for host in overrides if not re.fullmatch(_HOST, host)]
    if wrong:
        raise RuleBrokenError(f"max.connections.per.ip.overrides contains invalid addresses : {','.join(wrong)}")
    idle, delay = settings["connections.max.idle.ms"], settings["connection.failed.authentication.delay.ms"]
    if idle >= 0:
        _require(
            delay < idle,
            f"connection.failed.authentication.delay.ms={delay} should always be less than "
            f"connections.max.idle.ms={idle} to prevent failed authentication responses from timing out",
        )


def connection_overrides(text: str) -> dict[str, int]:
    """Return connection limits by address from address:count pairs; the count is after the last colon."""
    return {host: _count(count) for host, count in pairs("max.connections.per.ip.overrides", text).items()}


def _count(text: str) -> int:
    found = re.fullmatch(r"([+-]?)0*(\d{1,10})", text)
    count = int(found[1] + found[2]) if found else _INT32_MAX + 1
    if not -_INT32_MAX - 1 <= count <= _INT32_MAX:
        raise RuleBrokenError(f'For input string: "{text}"')
    return count


def pairs(name: str, text: str) -> dict[str, str]:
    """Return the entries of a list key:value,...; the value is after the last colon."""
    found = {}
    for item in text.split(",") if text else ():
        key, colon, value = item.strip().rpartition(":")
        if not colon:
            raise RuleBrokenError(
                f"Error parsing configuration property '{name}': begin 0, end -1, length {len(item.strip())}"
            )
        found[key.strip()] = value.strip()
    return found


def _check_groups(settings: Mapping[str, Any]) -> None:
    if "classic" not in settings["group.coordinator.rebalance.protocols"]:
        raise RuleBrokenError("Disabling the 'classic' protocol is not supported.")
    for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if not 0 <= settings[name] <= _COMPRESSION_TYPE_LAST:
            raise RuleBrokenError(f"{name}: Unknown compression type id: {settings[name]}")
    for name, known in _ASSIGNORS.items():
        for assignor in settings[name]:
            if assignor not in known:
                raise RuleBrokenError(f"{name}: Class {assignor} cannot be found")


_COMPRESSION_TYPE_LAST = 4
_ASSIGNORS = {
    "group.consumer.assignors": {
        "uniform",
        "range",
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
    },
    "group.share.assignors": {"simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"},
}


def _check_group_kind(settings: Mapping[str, Any], kind: str) -> None:
    for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        _check_between(settings, f"group.{kind}", what)
    session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
    _agree(
        settings[heartbeat] < settings[session],
        f"{heartbeat} must be less than {session}",
    )
    if kind == "streams":
        value, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
        _agree(settings[value] <= settings[most], f"{value} must be less than or equal to {most}")


def _check_between(settings: Mapping[str, Any], prefix: str, what: str) -> None:
    value, least, most = f"{prefix}.{what}", f"{prefix}.min.{what}", f"{prefix}.max.{what}"
    _agree(settings[most] >= settings[least], f"{most} must be greater than or equal to {least}")
    _agree(settings[value] >= settings[least], f"{value} must be greater than or equal to {least}")
    _agree(settings[value] <= settings[most], f"{value} must be less than or equal to {most}")


def _check_share_records(settings: Mapping[str, Any]) -> None:
    for what in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"):
        _check_between(settings, "group.share", what)
    _agree(
        settings["group.share.max.share.sessions"] >= settings["group.share.max.size"],
        "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
    )


def _check_super_users(settings: Mapping[str, Any]) -> None:
    for principal in filter(None, (each.strip() for each in settings["super.users"].split(";"))):
        kind, _, name = principal.partition(":")
        _agree(
            bool(kind and name),
            f"super.users: expected a string in format principalType:principalName but got {principal}",
        )
