"""Log levels of a running node: the broker loggers of DescribeConfigs and IncrementalAlterConfigs (KIP-412).

The loggers are those of the kwire package, by the names in log lines, such as kwire.server.node.storage. The name root
stands for the logger kwire above all of them: other loggers of the process belong to the program that embeds the
broker. Levels belong to this process, and a restart resets them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kwire.cluster.configs.config_keys import broker_id_of
from kwire.cluster.controller.plans.configs import AlterOperation, Change
from kwire.protocol.error_codes import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

ROOT: Final = "root"
_OWN: Final = "kwire"
_LEVELS: Final[Mapping[str, int]] = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}
"""Kafka's names of levels. TRACE logs the same messages as DEBUG."""


def levels() -> dict[str, str]:
    """Return the level of each logger: its own, or that of the nearest logger above it."""
    found = {name: _level_name(each) for name, each in _loggers().items()}
    return dict(sorted(found.items()))


def alter_loggers(node_id: int, name: str, changes: Sequence[Change], *, validate_only: bool) -> None:
    """Set and remove levels of the node with the id `name`. Raises KafkaError, and then no level has changed."""
    check_node(node_id, name)
    loggers = _loggers()
    for change in changes:
        _check(loggers, change)
    if validate_only:
        return
    for logger_name, operation, level in changes:
        is_set = operation == AlterOperation.SET
        loggers[logger_name].setLevel(_LEVELS[level] if is_set and level is not None else logging.NOTSET)
        logger.warning("the log level of %s is %s", logger_name, level if is_set else "that of the logger above it")


def check_node(node_id: int, name: str) -> None:
    """Raise KafkaError if the name of a resource is not the id of this node."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    asked = broker_id_of(name)
    if asked is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if asked != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} but received {name}")


def _loggers() -> dict[str, logging.Logger]:
    """Return one logger for each module that logs, by the module's name, and for each package above."""
    modules = [name for name in list(logging.root.manager.loggerDict) if name.startswith(f"{_OWN}.")]
    packages = [name.rsplit(".", levels)[0] for name in modules for levels in range(1, name.count("."))]
    return {ROOT: logging.getLogger(_OWN)} | {name: logging.getLogger(name) for name in (*modules, *packages)}


def _level_name(of: logging.Logger) -> str:
    """Return Kafka's name of the highest level that lets through at least as much as the logger does."""
    level = of.getEffectiveLevel()
    return max((name for name in _LEVELS if _LEVELS[name] <= level), key=_LEVELS.__getitem__, default="TRACE")


def _check(loggers: Mapping[str, logging.Logger], change: Change) -> None:
    name, operation, level = change
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        word = AlterOperation(operation).name
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource")
    if name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == AlterOperation.SET and level not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
    if operation == AlterOperation.DELETE and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
