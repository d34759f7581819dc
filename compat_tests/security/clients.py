"""Clients of other people: each produces and consumes with a Login, and reports how it is refused."""

import asyncio
import logging
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import aiokafka.abc
import confluent_kafka
import kafka.net.sasl.oauth
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from compat_tests.aiokafka_client import client as aiokafka_client
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python import client as kafka_python_client
from compat_tests.kafka_tools.tools import ToolBox
from compat_tests.kcat.tool import kcat_command
from compat_tests.security import oauthbearer
from compat_tests.security.go_client import FranzGo
from compat_tests.security.node_client import KafkaJs
from compat_tests.security.secured import Login
from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE

REFUSED_SECONDS = 3
"""Seconds after which a client that repeats its attempts gives up."""


class Client(Protocol):
    """A client; `directory` is for its files."""

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        """Produce the values, and return those that are consumed."""

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return how the client reports that it is refused; empty if it is served."""


class KafkaPython:
    """kafka-python: keyword arguments."""

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        settings = self._settings(login)
        with kafka_python_client.producer(login.address, **settings) as client:
            for value in values:
                client.send(topic, value).get(timeout=20)
        with kafka_python_client.consumer(login.address, topic, **settings) as client:
            found: list[bytes] = []

            def has_all() -> bool:
                found.extend(_values(client.poll(500)))
                return len(found) >= len(values)

            eventually(has_all, "records")
            return found

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return the client's error and what it logged."""
        with logged("kafka") as lines:
            return "; ".join((self._error(login, topic), *lines))

    def _error(self, login: Login, topic: str) -> str:
        try:
            client = KafkaProducer(
                bootstrap_servers=login.address, bootstrap_timeout_ms=REFUSED_SECONDS * 1000, **self._settings(login)
            )
        except Exception as error:
            return _named(error)
        try:
            client.send(topic, b"refused").get(timeout=REFUSED_SECONDS)
        except Exception as error:
            return _named(error)
        finally:
            client.close(timeout=5)
        return ""

    @staticmethod
    def _settings(login: Login) -> dict[str, object]:
        found = {"security_protocol": login.protocol}
        if login.uses_tls:
            found |= {"ssl_cafile": str(login.authority)}
            found |= {} if login.identity is None else {"ssl_certfile": str(login.identity)}
        if login.mechanism is not None:
            found |= {"sasl_mechanism": login.mechanism}
            found |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
            found |= {"sasl_oauth_token_provider": KafkaPythonTokens(login)}
        return found


class KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    """Tokens of the login's user."""

    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def token(self) -> str:
        return self._login.provider.token(self._login.user)[0]


class AiokafkaTokens(aiokafka.abc.AbstractTokenProvider):
    """Tokens of the login's user."""

    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.provider.token(self._login.user)[0]


def _values(polled: dict) -> list[bytes]:
    return [record.value for records in polled.values() for record in records]


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """Collect what a client logs: kafka-python and aiokafka name the reason of a refused bootstrap only there."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def _named(error: BaseException | None) -> str:
    """Return the classes and messages of an error and its causes."""
    parts = []
    while error is not None:
        parts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return "; ".join(parts)


class Confluent:
    """confluent-kafka: librdkafka's properties."""

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        settings = self._settings(login)
        client = confluent_client.producer(login.address, **settings)
        for value in values:
            client.produce(topic, value)
        assert client.flush(20) == 0
        with confluent_client.consumer(login.address, **settings) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            return [message.value() for message in confluent_client.read(consumer, len(values))]

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return the name and the text of the first error that the client reports."""
        errors = []
        settings = {"bootstrap.servers": login.address, "error_cb": errors.append, "log_level": 0}
        client = confluent_kafka.Producer(settings | self._settings(login))
        client.produce(topic, b"refused", on_delivery=lambda error, _: errors.append(error))
        eventually(lambda: (client.poll(0.1), any(errors))[1], "an error", 30)
        client.purge()
        client.flush(5)
        first = next(each for each in errors if each is not None)
        return f"{first.name()}: {first.str()}"

    @staticmethod
    def _settings(login: Login) -> dict[str, object]:
        found: dict[str, object] = {**librdkafka_settings(login)}
        if login.mechanism == oauthbearer.MECHANISM:  # with other mechanisms, a client would wait for the first token
            found["oauth_cb"] = lambda _: login.provider.token(login.user)
        return found


def librdkafka_settings(login: Login) -> dict[str, str]:
    found = {"security.protocol": login.protocol}
    if login.uses_tls:
        found |= {"ssl.ca.location": str(login.authority)}
        if login.identity is not None:
            found |= {"ssl.certificate.location": str(login.identity), "ssl.key.location": str(login.identity)}
    if login.mechanism is not None:
        found |= {"sasl.mechanisms": login.mechanism, "sasl.username": login.user, "sasl.password": login.password}
    return found


def identity_provider(login: Login) -> dict[str, str]:
    """Return the settings by which librdkafka gets tokens from the identity provider itself."""
    if login.mechanism != oauthbearer.MECHANISM:
        return {}
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": login.user,
        "sasl.oauthbearer.client.secret": login.password,
        "sasl.oauthbearer.token.endpoint.url": f"{login.provider.url}{oauthbearer.TOKEN}",
    }


class Aiokafka:
    """aiokafka: keyword arguments with an SSLContext."""

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        async def act() -> list[bytes]:
            settings = self._settings(login)
            async with aiokafka_client.producer(login.address, **settings) as client:
                for value in values:
                    await client.send_and_wait(topic, value)
            async with aiokafka_client.consumer(login.address, topic, **settings) as client:
                return [(await asyncio.wait_for(client.getone(), 20)).value for _ in values]

        return asyncio.run(act())

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return the client's error."""

        async def act() -> str:
            client = AIOKafkaProducer(bootstrap_servers=login.address, **self._settings(login))
            try:
                await client.start()
                await asyncio.wait_for(client.send_and_wait(topic, b"refused"), REFUSED_SECONDS)
            except Exception as error:
                return _named(error)
            finally:
                await client.stop()
            return ""

        with logged("aiokafka") as lines:
            return "; ".join((asyncio.run(act()), *lines))

    @staticmethod
    def _settings(login: Login) -> dict[str, object]:
        found: dict[str, object] = {"security_protocol": login.protocol}
        if login.uses_tls:
            context = ssl.create_default_context(cafile=str(login.authority))
            if login.identity is not None:
                context.load_cert_chain(login.identity)
            found |= {"ssl_context": context}
        if login.mechanism is not None:
            found |= {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": AiokafkaTokens(login)}
            found |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
        return found


class Kcat:
    """kcat: librdkafka's properties on the command line."""

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        self._run(login, "-P", "-t", topic, stdin=b"\n".join(values) + b"\n", check=True)
        read = self._run(login, "-C", "-q", "-e", "-t", topic, "-p", "0", "-o", "beginning", check=True)
        return read.stdout.splitlines()

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return the error stream; empty if the client was served."""
        done = self._run(login, "-P", "-t", topic, "-X", "message.timeout.ms=3000", stdin=b"refused\n", check=False)
        return done.stderr.decode(errors="replace") if done.returncode else ""

    @staticmethod
    def _run(login: Login, *arguments: str, stdin: bytes = b"", check: bool) -> subprocess.CompletedProcess:
        settings = librdkafka_settings(login) | identity_provider(login)
        options = [each for key, value in settings.items() for each in ("-X", f"{key}={value}")]
        command = kcat_command(login.address, *arguments, *options)
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stderr.decode(errors="replace")
        return done


def kcat_gets_tokens() -> bool:
    """Return True if kcat can ask an identity provider for tokens; Debian's cannot."""
    return "oauthbearer_oidc" in _kcat_version()


def kcat_repeats_its_nonce() -> bool:
    """Return True for librdkafka before 2.6.1: its logins by SCRAM break RFC 5802, and brokers refuse them."""
    shown = _kcat_version()
    version = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", shown)
    assert version is not None, shown
    return tuple(map(int, version.groups())) < (2, 6, 1)


def _kcat_version() -> str:
    return subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout


class Java:
    """Apache Kafka's console tools, each in its own JVM."""

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        tools, config = ToolBox(login.address, None), command_config(login, directory)
        lines = b"".join(value + b"\n" for value in values).decode()
        produced = tools.finish(
            tools.start("kafka-console-producer", "--topic", topic, "--command-config", config, stdin=subprocess.PIPE),
            lines,
        )
        assert produced.status == 0, produced.said
        some = ("--partition", "0", "--offset", "earliest", "--max-messages", str(len(values)))
        read = tools.run("kafka-console-consumer", "--topic", topic, *some, "--command-config", config)
        assert read.status == 0, read.said
        return [line.encode() for line in read.lines]

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return what the tool says of the error; empty if it is served."""
        tools, config = ToolBox(login.address, None), command_config(login, directory, short_timeout=True)
        ran = tools.run("kafka-get-offsets", "--topic", topic, "--command-config", config)
        return ran.said if ran.status else ""


def command_config(login: Login, directory: Path, *, short_timeout: bool = False) -> str:
    """Return the name of a properties file of a Java client."""
    found = {"security.protocol": login.protocol}
    if short_timeout:
        found |= {"default.api.timeout.ms": "6000", "request.timeout.ms": "3000"}
    if login.uses_tls:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.authority)}
        if login.identity is not None:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(login.identity)}
    if login.mechanism is not None:
        found |= {"sasl.mechanism": login.mechanism, **_java_login(login)}
    path = directory / f"client-{len(list(directory.iterdir()))}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
    return str(path)


def _java_login(login: Login) -> dict[str, str]:
    if login.mechanism == oauthbearer.MECHANISM:
        return {
            "sasl.jaas.config": f"{oauthbearer.MODULE} required;",
            "sasl.login.callback.handler.class": oauthbearer.LOGIN,
            "sasl.oauthbearer.token.endpoint.url": f"{login.provider.url}{oauthbearer.TOKEN}",
            "sasl.oauthbearer.client.credentials.client.id": login.user,
            "sasl.oauthbearer.client.credentials.client.secret": login.password,
        }
    module = PLAIN_MODULE if login.mechanism == "PLAIN" else SCRAM_MODULE
    option = ' tokenauth="true"' if login.is_token else ""
    return {"sasl.jaas.config": f'{module} required username="{login.user}" password="{login.password}"{option};'}


CLIENTS: dict[str, Client] = {
    "kafka-python": KafkaPython(),
    "confluent-kafka": Confluent(),
    "aiokafka": Aiokafka(),
    "kcat": Kcat(),
    "java": Java(),
    "franz-go": FranzGo(),
    "kafkajs": KafkaJs(),
}
