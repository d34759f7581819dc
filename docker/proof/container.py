"""kwire for the testcontainers library: `with KwireContainer(image) as kwire: kwire.bootstrap_server`.

A Kafka client connects to the address that the broker advertises, so the broker must know its port on the host before
it starts. This class therefore chooses a free port and binds the container to it.
"""

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests.harness.ports import free_ports

READY = "kwire: serving Kafka on "


class KwireContainer(DockerContainer):
    """Container with one broker that is reachable from the host. Settings are Kafka's, by their dotted names."""

    def __init__(self, image: str = "kwire:latest", settings: dict[str, str] | None = None, **options) -> None:
        super().__init__(image, **options)
        (self.port,) = free_ports(1)
        advertised = {"advertised.listeners": f"PLAINTEXT://localhost:{self.port}"}
        overrides = [f"--override {name}={value}" for name, value in (advertised | (settings or {})).items()]
        self.with_command(" ".join(overrides))
        self.with_bind_ports(9092, self.port)
        self.waiting_for(LogMessageWaitStrategy(READY))

    @property
    def bootstrap_server(self) -> str:
        return f"localhost:{self.port}"
