"""kwire: a real Kafka that you pip install.

with kwire.Broker() as broker:
    connect_to(broker.bootstrap_server)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.embedded import Broker, BrokerFailedError

__all__ = ["Broker", "BrokerFailedError"]


def __getattr__(name: str) -> object:
    """Import the broker on first use, because the lower layers must be importable without it."""
    if name in __all__:
        from kwire import embedded  # noqa: PLC0415 see above

        return getattr(embedded, name)
    raise AttributeError(f"module 'kwire' has no attribute {name!r}")
