"""Keys of the standard authorizer."""

from __future__ import annotations

from kwire.cluster.configs.config_keys import ConfigKey, ConfigType

KEYS = (
    ConfigKey(
        name="super.users",
        type=ConfigType.STRING,
        default="",
        doc="Principals that may do everything, separated by semicolons, such as User:admin;User:broker.",
    ),
    ConfigKey(
        name="allow.everyone.if.no.acl.found",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="If true, everyone may use a resource to which no access control entry applies.",
    ),
)
