"""Users on the command line of formatting: their records, and rejected arguments."""

from __future__ import annotations

import base64
from hashlib import pbkdf2_hmac, sha256

import pytest

from kwire.cluster.formatting.initial_scram import InvalidScramError, parse_scram
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.scram import ScramMechanism, make_credential
from kwire.protocol.messages.metadata_records import UserScramCredentialRecord
from kwire.seams import SystemRandomSource

CHANCE = SystemRandomSource(1)
SALT = b"1l6x4pdnw4fwq7notcxm0y1k7q"
SALT_TEXT = base64.b64encode(SALT).decode()


def only(argument: str) -> UserScramCredentialRecord:
    (record,) = parse_scram([argument], CHANCE)
    return record


def key(text: str) -> bytes:
    return base64.b64decode(text)


def test_the_keys_are_those_of_the_rfc() -> None:
    """RFC 7677 contains the server's messages for the user `user` with the password `pencil`."""
    record = only('SCRAM-SHA-256=[name=user,salt="W22ZaJ0SNY7soEsUEjb6gQ==",password=pencil]')
    salted = pbkdf2_hmac("sha256", b"pencil", record.salt, 4096)
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert hmac_sha256(record.server_key, message) == key("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    proof = key("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac_sha256(record.stored_key, message)
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert sha256(client_key).digest() == record.stored_key
    expected = make_credential(ScramMechanism.SCRAM_SHA_256, salted, salt=record.salt, iterations=4096)
    assert (expected.stored_key, expected.server_key) == (record.stored_key, record.server_key)


def hmac_sha256(secret: bytes, message: bytes) -> bytes:
    """Compute an HMAC independently of the tested code (RFC 2104)."""
    block = secret.ljust(64, b"\0")
    inner = sha256(bytes(each ^ 0x36 for each in block) + message).digest()
    return sha256(bytes(each ^ 0x5C for each in block) + inner).digest()


@pytest.mark.parametrize(
    ("mechanism", "digest", "number"), [("SCRAM-SHA-256", "sha256", 1), ("SCRAM-SHA-512", "sha512", 2)]
)
def test_a_salted_password_gives_the_keys_of_its_password(mechanism: str, digest: str, number: int) -> None:
    by_password = only(f'{mechanism}=[name="alice",iterations=8192,salt={SALT_TEXT},password=alice-secret]')
    salted = base64.b64encode(pbkdf2_hmac(digest, b"alice-secret", SALT, 8192)).decode()
    by_salted = only(f"{mechanism}=[name=alice,iterations=8192,salt={SALT_TEXT},saltedpassword={salted}]")
    assert by_password == by_salted
    assert (by_password.name, by_password.mechanism, by_password.iterations) == ("alice", number, 8192)
    assert by_password.salt == SALT
    assert len(by_password.stored_key) == len(by_password.server_key) == (32 if number == 1 else 64)


def test_missing_iterations_and_salt_are_generated() -> None:
    one, two = parse_scram(["SCRAM-SHA-256=[name=a,password=x]"] * 2, CHANCE)
    assert one.iterations == 4096
    assert 20 <= len(one.salt) <= 26
    assert one.salt != two.salt
    assert one.stored_key != two.stored_key


@pytest.mark.parametrize(
    ("components", "name", "salt"),
    [
        ("name=a,password=x,salt=N3E", "a", b"7q"),
        ("name=a,password=x,salt=N3E=,,", "a", b"7q"),
        ("name=a,password=x,salt=", "a", b""),
        ("name=first,name=a=b,password=x,salt=N3E=,iterations=+4096", "a=b", b"7q"),
        ('name="",password=x,salt="N3E="', "", b"7q"),
        ('name="a,password=x,salt=N3E=', '"a', b"7q"),
        ("name= a ,password=x,salt=N3E=,iterations=16384", " a ", b"7q"),
        ("name=Ä,password=x,saltedpassword=YCE=,salt=N3E=", "Ä", b"7q"),
    ],
)
def test_unusual_scram_arguments_are_parsed_as_in_kafka(components: str, name: str, salt: bytes) -> None:
    record = only(f" SCRAM-SHA-256=[{components}] ")
    assert (record.name, record.salt) == (name, salt)
    password = pbkdf2_hmac("sha256", b"x", salt, record.iterations)
    expected = make_credential(ScramMechanism.SCRAM_SHA_256, password, salt=salt, iterations=record.iterations)
    assert record.stored_key == expected.stored_key, "a password counts before a salted one"


NO_PASSWORD = "You must supply one of 'password' or 'saltedpassword' to add-scram"
NOT_ITERATIONS = "Failed to parse iterations count: it is not an integer of 32 bits"


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("", "Failed to find equals sign in SCRAM argument 2"),
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument 2"),
        ("SCRAM-SHA-1=[name=a,password=x]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("scram-sha-256=[name=a,password=x]", "The add-scram mechanism scram-sha-256 is not supported."),
        ("SCRAM-SHA-256=name=a,password=x]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=x", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[]", "No equals sign found in SCRAM component 1"),
        ("SCRAM-SHA-256=[,]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a,,password=x]", "No equals sign found in SCRAM component 2"),
        ("SCRAM-SHA-256=[password=x]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", NO_PASSWORD),
        ("SCRAM-SHA-256=[name=a, password=x]", NO_PASSWORD),
        ("SCRAM-SHA-256=[name=a,saltedpassword=YCE=]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,salt=N3E==,password=x]", "Failed to decode given salt: it is not base64"),
        (
            "SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=!]",
            "Failed to decode given saltedPassword: it is not base64",
        ),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=many]", NOT_ITERATIONS),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=4_096]", NOT_ITERATIONS),
        ("SCRAM-SHA-256=[name=a,password=x,iterations=2147483648]", NOT_ITERATIONS),
        (
            "SCRAM-SHA-256=[name=a,password=x,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=x,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ("SCRAM-SHA-256=[name=a,password=x,foo=1,bar=2]", "Unknown SCRAM configurations: component 3, 4"),
        ("SCRAM-SHA-256=[name=a,password=]", "The 'password' of add-scram must not be empty"),
        ("SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=]", "The 'saltedpassword' of add-scram must not be empty"),
        (
            f"SCRAM-SHA-256=[name={'n' * 32768},password=x]",
            "The 'name' value must have at most 32767 bytes for add-scram",
        ),
        ("SCRAM-SHA-256=[name=a,password=\udcff]", "An argument of add-scram is not UTF-8"),
    ],
)
def test_malformed_scram_credentials_are_rejected(argument: str, words: str) -> None:
    with pytest.raises(InvalidScramError) as rejected:
        parse_scram(["SCRAM-SHA-256=[name=good,password=x]", argument], CHANCE)
    assert str(rejected.value) == words


@pytest.mark.parametrize(
    "argument",
    [
        "SCRAM-SHA-256=[name=a,password=hun,ter2]",
        "SCRAM-SHA-256=[name=a,password=hun,ter2=x]",
        "SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=hunter2*]",
        "SCRAM-SHA-256=[name=a,salt=N3E= password=hunter2]",
        "SCRAM-SHA-256=[name=a,iterations=8192 password=hunter2,password=x]",
        "SCRAM-SHA-256:name:a,password:hunter2",
        "SCRAM-SHA-256:a:hunter2=[name=a,password=x]",
    ],
)
def test_an_error_message_contains_no_part_of_a_password(argument: str) -> None:
    with pytest.raises(InvalidScramError) as rejected:
        parse_scram([argument], CHANCE)
    assert "ter2" not in str(rejected.value)


def test_a_user_given_twice_has_the_last_credential() -> None:
    """Kafka's storage tool writes both as well, and the later record counts."""
    one, two = parse_scram([f"SCRAM-SHA-256=[name=a,password=x,iterations={count}]" for count in (5000, 6000)], CHANCE)
    assert (one.iterations, two.iterations) == (5000, 6000)
    image = MetadataImage().apply([one, two], offset=2, epoch=1)
    assert image.scram["a"][ScramMechanism.SCRAM_SHA_256].stored_key == two.stored_key
