"""Validation of dynamic changes of a broker's configuration: Apache Kafka's checks, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kwire.cluster.configs.broker import BROKER_KEYS, base_name
from kwire.cluster.configs.config_keys import ConfigError, ConfigType, Update, Use, parse
from kwire.cluster.configs.settings import CurrentSettings
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.settings.config import BrokerConfig, SettingError, make_config
from kwire.server.settings.dynamic_configs import NEVER_ALTERED_TO_NOTHING, DynamicConfigs, dynamic_key
from kwire.server.settings.listener_values import LISTENER_LIMITS
from kwire.server.settings.local_settings import is_as_in_file, is_local
from kwire.server.settings.setting_rules import RuleBrokenError, check_rules, pairs

_THREADS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)
_PER_LISTENER_ONLY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_INVALID = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)
_CLUSTER_LEVEL = LISTENER_LIMITS | {"num.network.threads"}


def check_dynamic(
    config: BrokerConfig,
    settings_now: CurrentSettings,
    dynamic: DynamicConfigs,
    values: Mapping[str, str],
    *,
    per_broker: bool,
) -> None:
    """Raise KafkaError if `values` are not valid as this broker's own (or the default) dynamic configuration."""
    try:
        _check_names(values)
        _check_local(config, values)
        _check_types(values)
        if not per_broker:
            _check_level(values)
        layers = (dynamic.defaults, values) if per_broker else (values, dynamic.own)
        merged = {**config.values, **layers[0], **layers[1]}
        settings = _settings(settings_now, merged)
        _check_endpoints(config, merged, values)
        check_rules(settings)
        _check_steps(settings_now.values, settings)
        _check_served(values)
    except (ConfigError, RuleBrokenError, SettingError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


async def check_parts(
    config: BrokerConfig, settings_now: CurrentSettings, dynamic: DynamicConfigs, values: Mapping[str, str]
) -> None:
    """Raise KafkaError if a part of this broker cannot use its own dynamic configuration `values`, which is checked."""
    texts = {**dynamic.defaults, **values}
    settings = _settings(settings_now, {**config.values, **texts})
    try:
        for validate in dynamic.validators:
            await validate(texts, settings)
    except SettingError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _INVALID.format(error)) from error


def _reject(names: Iterable[str], why: str) -> None:
    found = sorted(names)
    if found:
        raise RuleBrokenError(f"{why}: [{', '.join(found)}]")


def _check_names(values: Mapping[str, str]) -> None:
    fixed = [name for name in values if name in BROKER_KEYS and not BROKER_KEYS[name].dynamic]
    _reject(fixed, "Cannot update these configs dynamically")
    _reject(
        _PER_LISTENER_ONLY & values.keys(),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )


def _check_local(config: BrokerConfig, values: Mapping[str, str]) -> None:
    """Raise KafkaError INVALID_CONFIG if a value names code, a file, an address or a command.

    The value of the broker's properties file, or else the default, changes nothing.
    """
    for name, text in values.items():
        if is_local(name) and not is_as_in_file(name, text, config.values):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} can only be set in the broker's properties file")


def _check_types(values: Mapping[str, str]) -> None:
    for name, text in values.items():
        key = dynamic_key(name)
        if key is not None:
            parse(key, text)


def _check_level(values: Mapping[str, str]) -> None:
    narrow = []
    for name in values:
        key = BROKER_KEYS.get(base_name(name))
        own_listener = name.startswith("listener.name.") and base_name(name) not in _CLUSTER_LEVEL
        if own_listener or (key is not None and key.update is Update.PER_BROKER):
            narrow.append(name)
    _reject(narrow, "Cannot update these configs at default cluster level, broker id must be specified")


def _settings(settings_now: CurrentSettings, merged: Mapping[str, str]) -> dict[str, Any]:
    return {
        **settings_now.values,
        **{name: parse(key, merged.get(name, key.default)) for name, key in BROKER_KEYS.items() if key.dynamic},
    }


def _check_endpoints(config: BrokerConfig, merged: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Reject a change of listeners: their settings must result in the same listeners as at start."""
    if not values.keys() & {"listeners", "listener.security.protocol.map"}:
        return
    pairs("listener.security.protocol.map", merged.get("listener.security.protocol.map", ""))
    if make_config(dict(merged)).listeners != config.listeners:
        raise RuleBrokenError("Listeners cannot be altered while the broker runs")


def _check_steps(now: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    """Raise RuleBrokenError for changes that parts of Kafka's broker reject."""
    checks: tuple[Callable[[Mapping[str, Any], Mapping[str, Any]], str], ...] = (
        _threads_fault,
        _cleaner_fault,
        _limit_fault,
        _local_retention_fault,
        _reporters_fault,
    )
    for check in checks:
        fault = check(now, then)
        if fault:
            raise RuleBrokenError(_INVALID.format(fault))


def _threads_fault(now: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    for name in _THREADS:
        before, after = now[name], then[name]
        said = f"Dynamic thread count update validation failed for {name}={after}, value should"
        if after < before // 2:
            return f"{said} be at least half the current value {before}"
        if after > before * 2:
            return f"{said} not be greater than double the current value {before}"
    return ""


def _cleaner_fault(now: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    before, after = now["log.cleaner.threads"], then["log.cleaner.threads"]
    if after < before // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {before}"
    if after > before * 2:
        return f"Log cleaner threads cannot be increased to more than double the current value {before}"
    return ""


def _limit_fault(_: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    for name in NEVER_ALTERED_TO_NOTHING:
        if then[name] <= 0:
            return f"Invalid {name} {then[name]}"
    return ""


def _local_retention_fault(_: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    for local, whole in (
        ("log.local.retention.ms", "log.retention.ms"),
        ("log.local.retention.bytes", "log.retention.bytes"),
    ):
        kept, limit = then[local], then[whole]
        if whole == "log.retention.ms" and limit is None:
            minutes = then["log.retention.minutes"]
            limit = then["log.retention.hours"] * 3_600_000 if minutes is None else minutes * 60_000
        if limit < 0 or kept == -2:
            continue
        if kept == -1:
            return (
                f"Invalid value -1 for configuration {local}: Value must not be -1 as {whole} value is set as {limit}."
            )
        if kept > limit:
            return (
                f"Invalid value {kept} for configuration {local}: "
                f"Value must not be more than {whole} property value: {limit}"
            )
    return ""


def _reporters_fault(_: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    """Return the error for any metrics reporter but Kafka's own: kwire loads no Java classes."""
    unknown = set(then["metric.reporters"]) - {"org.apache.kafka.common.metrics.JmxReporter"}
    if not unknown:
        return ""
    return (
        "Validation of dynamic config update of Set(metric.reporters) failed with class "
        "class kafka.server.DynamicMetricsReporters"
    )


def _check_served(values: Mapping[str, str]) -> None:
    """Reject settings that kwire does not implement; Kafka accepts them, which is a documented difference."""
    for name, text in values.items():
        key = BROKER_KEYS.get(base_name(name))
        if key is not None and key.use is Use.REJECTED and parse(key, text) != parse(key, key.default):
            shown = "[hidden]" if key.type is ConfigType.PASSWORD else text
            raise RuleBrokenError(f"{name}={shown} is not served yet, only its default")
