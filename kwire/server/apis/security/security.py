"""APIs that read users, ACLs and delegation tokens, and of logins, that brokers and controllers answer alike."""

from __future__ import annotations

from kwire.server.apis.security import (
    describe_acls,
    describe_delegation_token,
    describe_user_scram_credentials,
    sasl_authenticate,
    sasl_handshake,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeServices

APIS: tuple[Api[NodeServices], ...] = (
    describe_acls.API,
    describe_delegation_token.API,
    describe_user_scram_credentials.API,
    sasl_authenticate.API,
    sasl_handshake.API,
)
