"""Settings of GSSAPI at one listener: the key tab and the principal of this node, and the names of users."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kwire.server.security.sasl.jaas import LoginModule
from kwire.server.security.sasl.kerberos_names import UserNames
from kwire.server.security.sasl.mechanism import RULES_KEY, SERVICE_KEY
from kwire.server.settings.setting_rules import RuleBrokenError

SERVICE_OPTION: Final = "serviceName"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosSettings:
    """Settings of GSSAPI at one listener."""

    module_key: str
    """Setting that contains the login module, for messages."""
    principal: str
    """Principal of this node, which clients ask the key distribution center for."""
    key_tab: str
    """Path of the file with the keys of the principal."""
    service_name: str
    """First component of the principals of all nodes."""
    names: UserNames = field(repr=False)


def read_kerberos_settings(module_key: str, module: LoginModule | None, values: Mapping[str, Any]) -> KerberosSettings:
    """Return the settings of a listener from its login module and its values. Raises RuleBrokenError."""
    if module is None:
        raise RuleBrokenError(
            f"{module_key}: is missing; give the key tab and the principal of GSSAPI there, or set "
            "sasl.enabled.mechanisms to other mechanisms"
        )
    options = module.options
    for option in ("useKeyTab", "storeKey"):
        if options.get(option, "").lower() != "true":
            raise RuleBrokenError(f"{module_key}: has no {option}=true; a node has its keys in a key tab")
    for option in ("keyTab", "principal"):
        if not options.get(option):
            raise RuleBrokenError(f"{module_key}: has no {option}; add it")
    return KerberosSettings(
        module_key=module_key,
        principal=options["principal"],
        key_tab=options["keyTab"].removeprefix("FILE:"),
        service_name=_service_name(module_key, options, values[SERVICE_KEY]),
        names=UserNames(values[RULES_KEY]),
    )


def _service_name(module_key: str, options: Mapping[str, str], setting: str | None) -> str:
    option = options.get(SERVICE_OPTION)
    if option and setting and option != setting:
        raise RuleBrokenError(f"{module_key}: has serviceName={option}, but {SERVICE_KEY} is {setting}; keep one")
    if not option and not setting:
        raise RuleBrokenError(f"{SERVICE_KEY}: is missing; it is the first component of this node's principal")
    return option or setting or ""


def check_key_tab(settings: KerberosSettings) -> None:
    """Raise RuleBrokenError if the key tab is not a file, or if every user of the machine can read it.

    A file that only a group can read is accepted, as in mounted secrets of containers.
    """
    where = f"{settings.module_key}: the key tab {settings.key_tab}"
    try:
        mode = Path(settings.key_tab).stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise RuleBrokenError(f"{where} cannot be read: {reason or error}") from None
    if not stat.S_ISREG(mode):
        raise RuleBrokenError(f"{where} is not a file")
    if mode & stat.S_IROTH:
        raise RuleBrokenError(f"{where} is readable by every user of this machine; chmod o-rwx it")
