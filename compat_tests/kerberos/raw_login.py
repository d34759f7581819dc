"""A login by hand: `python -m compat_tests.kerberos.raw_login ADDRESS CASE` prints the broker's last answer as JSON.

Cases: `right`; `late`, with a token that is sent after its ticket has expired; `layer`, with a security layer that was
not offered; `other-user`, with the authorization id of another user; `bare`, with tokens outside of requests.
"""

import json
import sys
import time

import gssapi

from compat_tests.harness.waiting import eventually
from compat_tests.kerberos.kdc import CLOCK_SKEW_SECONDS
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import RawClient, sized

INTEGRITY = b"\x02\x00\xff\xff"
NO_LAYER = b"\x01\x00\x00\x00"
EVERY_ENTRY = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
"""Request that only super users may send, because there are no entries."""
CHOICES = {"layer": INTEGRITY, "other-user": NO_LAYER + b"admin"}


def main() -> None:
    address, case = sys.argv[1:]
    host = address.rpartition(":")[0]
    name = gssapi.Name(f"kafka@{host}", gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(name=name, usage="initiate", mech=gssapi.MechType.kerberos)
    token = context.step()
    if case == "late":
        ends_at = time.time() + gssapi.Credentials(usage="initiate").lifetime + CLOCK_SKEW_SECONDS + 1
        eventually(lambda: time.time() > ends_at, "the end of the ticket")
    with RawClient(address) as client:
        version = 0 if case == "bare" else 1
        assert client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), version).error_code == 0
        send = bare if case == "bare" else in_request
        code, message, answer = send(client, token)
        if not code:
            context.step(answer)
            assert context.complete
            _, _, offer = send(client, b"")
            assert context.unwrap(offer).message[0] == NO_LAYER[0]
            choice = context.wrap(CHOICES.get(case, NO_LAYER), False).message
            if case == "bare":  # without an answer, as in Java's exchange
                client.send_bytes(sized(choice))
            else:
                code, message, _ = send(client, choice)
        is_super_user = not code and client.ask(EVERY_ENTRY, 3).error_code == 0
    print(json.dumps({"code": code, "message": message, "is_super_user": is_super_user}))


def in_request(client: RawClient, token: bytes) -> tuple[int, str | None, bytes]:
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    return answer.error_code, answer.error_message, answer.auth_bytes


def bare(client: RawClient, token: bytes) -> tuple[int, str | None, bytes]:
    client.send_bytes(sized(token))
    return 0, None, client.receive_frame()


if __name__ == "__main__":
    main()
