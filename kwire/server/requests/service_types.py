"""Type variables for contexts and APIs, by the services that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from kwire.server.requests.services import NodeServices, Services

    ServicesT_co = TypeVar("ServicesT_co", bound=NodeServices, default=Services, covariant=True)
    """Services that a context has; a broker's by default."""
    NeededT_contra = TypeVar("NeededT_contra", bound=NodeServices, default=Services, contravariant=True)
    """Services that an API needs."""
    DispatchedT = TypeVar("DispatchedT", bound=NodeServices)
    OtherT = TypeVar("OtherT", bound=NodeServices)
else:
    from typing import TypeVar

    ServicesT_co = TypeVar("ServicesT_co", covariant=True)
    NeededT_contra = TypeVar("NeededT_contra", contravariant=True)
    DispatchedT = TypeVar("DispatchedT")
    OtherT = TypeVar("OtherT")
