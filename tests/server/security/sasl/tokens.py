"""Tokens of an identity provider of tests, and the settings of a broker that accepts them."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
SETTINGS = {
    "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": [AUDIENCE, "other"],
}
TEXTS = {name: value if isinstance(value, str) else value[0] for name, value in SETTINGS.items()}


def jwks(**keys: Any) -> bytes:
    """Return a key set of private keys by id."""
    entries = []
    for key_id, key in keys.items():
        algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        entries.append({**json.loads(algorithm.to_jwk(key.public_key())), "kid": key_id, "use": "sig"})
    return json.dumps({"keys": entries}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    both = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, **changed}
    return {name: value for name, value in both.items() if value is not None}


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str | None = "rsa", **changed: Any) -> str:
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(claims(**changed), key, algorithm=algorithm, headers=headers)


def message(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()
