"""Clients of other people that log in with a ticket; each runs in processes of its own, with their environment."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat_tests.kafka_tools.tools import ToolBox
from compat_tests.kcat.tool import kcat_command
from kwire.server.security.sasl.jaas import KERBEROS_MODULE

SERVICE = "kafka"
SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Login:
    """Address and ticket of a client."""

    address: str
    protocol: str
    tickets: Path
    """File with tickets; it may not exist."""
    authority: Path
    environment: Mapping[str, str]
    """Variables of all programs of Kerberos."""
    service: str = SERVICE

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5CCNAME": f"FILE:{self.tickets}"}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Records that a client has read, or its error."""

    values: Sequence[bytes] = ()
    error: str = ""


def kcat(login: Login, topic: str, values: Sequence[bytes], directory: Path) -> Ended:
    """Produce and consume with kcat; the command of librdkafka that would get another ticket does nothing."""
    settings = {
        "security.protocol": login.protocol,
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": login.service,
        "sasl.kerberos.kinit.cmd": "true",
        "ssl.ca.location": str(login.authority),
        "message.timeout.ms": "5000",
    }
    options = [each for key, value in settings.items() for each in ("-X", f"{key}={value}")]
    for arguments, stdin in (
        (("-P", "-t", topic), b"\n".join(values) + b"\n"),
        (("-C", "-q", "-e", "-t", topic, "-p", "0", "-o", "beginning"), b""),
    ):
        command = kcat_command(login.address, *arguments, *options)
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=SECONDS, check=False, env=login.variables
        )
        if done.returncode:
            return Ended(error=done.stderr.decode(errors="replace"))
    return Ended(values=done.stdout.splitlines())


def java(login: Login, topic: str, values: Sequence[bytes], directory: Path) -> Ended:
    """Produce and consume with Apache Kafka's console tools; without a ticket they must not ask for a password."""
    tools, config = ToolBox(login.address, None), java_settings(login, directory)
    ran = tools.run("kafka-get-offsets", "--topic", topic, "--command-config", config)
    if ran.status:
        return Ended(error=ran.said)
    sink = tools.start("kafka-console-producer", "--topic", topic, "--command-config", config, stdin=subprocess.PIPE)
    produced = tools.finish(sink, b"".join(value + b"\n" for value in values).decode())
    assert produced.status == 0, produced.said
    some = ("--partition", "0", "--offset", "earliest", "--max-messages", str(len(values)))
    read = tools.run("kafka-console-consumer", "--topic", topic, *some, "--command-config", config)
    assert read.status == 0, read.said
    return Ended(values=[line.encode() for line in read.lines])


def java_settings(login: Login, directory: Path) -> str:
    """Return the name of a properties file of a Java client."""
    found = {
        "security.protocol": login.protocol,
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": login.service,
        "sasl.jaas.config": f'{KERBEROS_MODULE} required useTicketCache=true ticketCache="{login.tickets}" '
        "doNotPrompt=true;",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(login.authority),
        "default.api.timeout.ms": "6000",
        "request.timeout.ms": "3000",
    }
    path = directory / f"client-{len(list(directory.iterdir()))}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
    return str(path)


def kafka_python(login: Login, topic: str, values: Sequence[bytes], directory: Path) -> Ended:
    return _python("kafka-python", login, topic, values)


def aiokafka(login: Login, topic: str, values: Sequence[bytes], directory: Path) -> Ended:
    return _python("aiokafka", login, topic, values)


def _python(name: str, login: Login, topic: str, values: Sequence[bytes]) -> Ended:
    """Run a client of `python_clients` in a process."""
    asked = {
        "address": login.address,
        "protocol": login.protocol,
        "service": login.service,
        "authority": str(login.authority),
        "topic": topic,
        "values": [value.decode() for value in values],
    }
    answer = run_module("compat_tests.kerberos.python_clients", login, name, json.dumps(asked))
    return Ended(values=[value.encode() for value in answer["values"]], error=answer["error"])


def run_module(module: str, login: Login, *arguments: str) -> dict:
    """Run a module with a client's environment; return the JSON object in the last line of its output."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, env=login.variables, text=True)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout.splitlines()[-1])
    return found


CLIENTS = {"kcat": kcat, "java": java, "kafka-python": kafka_python, "aiokafka": aiokafka}
