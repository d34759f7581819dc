"""Identity provider for OAUTHBEARER: an HTTP server that issues tokens to users and publishes its key."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from compat_tests.harness.ports import HOST

ISSUER, AUDIENCE = "https://issuer.example", "kwire"
MECHANISM = "OAUTHBEARER"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
LIFETIME_SECONDS = 300
KEY_ID = "first"
TOKEN, KEYS = "/token", "/keys"


class Provider:
    """Keys of the provider, and the tokens that it signs."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}"
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, user: str) -> tuple[str, float]:
        """Return a token of a user, and the time at which it expires, in seconds since 1970."""
        now = time.time()
        claims = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": int(now), "exp": int(now + LIFETIME_SECONDS)}
        return jwt.encode(claims, self._key, "RS256", headers={"kid": KEY_ID}), now + LIFETIME_SECONDS

    def keys(self) -> dict[str, object]:
        """Return the provider's JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256"}
        return {"keys": [key | {"n": _unsigned(numbers.n), "e": _unsigned(numbers.e)}]}

    def settings(self, *listeners: str) -> dict[str, str]:
        """Return the settings of a broker that trusts the provider on these listeners."""
        found = {
            "sasl.oauthbearer.jwks.endpoint.url": f"{self.url}{KEYS}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        for listener in listeners:
            prefix = f"listener.name.{listener.lower()}.{MECHANISM.lower()}"
            found[f"{prefix}.sasl.jaas.config"] = f"{MODULE} required;"
            found[f"{prefix}.sasl.server.callback.handler.class"] = VALIDATOR
        return found


def _unsigned(number: int) -> str:
    encoded = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


@contextmanager
def running_provider(users: dict[str, str]) -> Iterator[Provider]:
    """Serve tokens to users with their passwords, by the grant of client credentials (RFC 6749, section 4.4)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, provider.keys())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            _, _, encoded = self.headers["Authorization"].partition(" ")
            user, _, password = base64.b64decode(encoded).decode().partition(":")
            if users.get(user) != password:
                self._answer(401, {"error": "invalid_client"})
                return
            token, _ = provider.token(user)
            self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": LIFETIME_SECONDS})

        def _answer(self, status: int, content: dict[str, object]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    provider = Provider(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
