"""kafka-python or aiokafka with a ticket: `python -m compat_tests.kerberos.python_clients NAME JSON`.

A process of its own has the environment in which the Kerberos library finds the ticket.
"""

import asyncio
import json
import logging
import ssl
import sys
from collections.abc import Mapping
from typing import Any

from compat_tests.aiokafka_client import client as aiokafka_client
from compat_tests.kafka_python import client as kafka_python_client

FIRST_SECONDS = 6


def with_kafka_python(asked: Mapping[str, Any]) -> list[str]:
    address, topic, values = asked["address"], asked["topic"], asked["values"]
    settings = {
        "security_protocol": asked["protocol"],
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": asked["service"],
        "ssl_cafile": asked["authority"],
        "bootstrap_timeout_ms": FIRST_SECONDS * 1000,
    }
    with kafka_python_client.producer(address, **settings) as client:
        for value in values:
            client.send(topic, value.encode()).get(timeout=FIRST_SECONDS)
    with kafka_python_client.consumer(address, topic, **settings) as client:
        return [next(client).value.decode() for _ in values]


def with_aiokafka(asked: Mapping[str, Any]) -> list[str]:
    settings = {
        "security_protocol": asked["protocol"],
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": asked["service"],
        "ssl_context": ssl.create_default_context(cafile=asked["authority"]),
    }

    async def act() -> list[str]:
        async with aiokafka_client.producer(asked["address"], **settings) as client:
            for value in asked["values"]:
                await asyncio.wait_for(client.send_and_wait(asked["topic"], value.encode()), FIRST_SECONDS)
        async with aiokafka_client.consumer(asked["address"], asked["topic"], **settings) as client:
            return [(await asyncio.wait_for(client.getone(), 20)).value.decode() for _ in asked["values"]]

    return asyncio.run(act())


def main() -> None:
    name, asked = sys.argv[1], json.loads(sys.argv[2])
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    values, error = [], ""
    try:
        values = (with_kafka_python if name == "kafka-python" else with_aiokafka)(asked)
    except Exception as failure:
        error = "; ".join((f"{type(failure).__name__}: {failure}", *lines))
    print(json.dumps({"values": values, "error": error}))


if __name__ == "__main__":
    main()
