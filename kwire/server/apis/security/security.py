"""APIs of users, ACLs and delegation tokens; brokers and controllers answer the same, mostly with errors."""

from __future__ import annotations

from kwire.server.apis.security import (
    create_acls,
    create_delegation_token,
    delete_acls,
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
    create_acls.API,
    create_delegation_token.API,
    delete_acls.API,
    describe_acls.API,
    describe_delegation_token.API,
    describe_user_scram_credentials.API,
    expire_delegation_token.API,
    renew_delegation_token.API,
    sasl_authenticate.API,
    sasl_handshake.API,
)
