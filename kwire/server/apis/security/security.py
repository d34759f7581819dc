"""APIs of users, ACLs and delegation tokens that brokers and controllers answer alike."""

from __future__ import annotations

from kwire.server.apis.security import (
    create_delegation_token,
    describe_acls,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeServices

APIS: tuple[Api[NodeServices], ...] = (
    create_delegation_token.API,
    describe_acls.API,
    describe_delegation_token.API,
    describe_user_scram_credentials.API,
    expire_delegation_token.API,
    renew_delegation_token.API,
    sasl_authenticate.API,
    sasl_handshake.API,
)
