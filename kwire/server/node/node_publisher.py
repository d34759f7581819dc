"""Publisher of a node: everything that a committed change of the metadata causes on every node, in order.

On a broker whose partitions are open, the BrokerPublisher takes its place (docs/decisions/0020).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from kwire.cluster.configs.settings import CurrentSettings
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.raft.metadata_log import MetadataPublisher
from kwire.cluster.security.authorizer import Authorizer
from kwire.cluster.security.standard_authorizer import StandardAuthorizer
from kwire.server.network.connection_limits import ListenerSettings
from kwire.server.network.listeners import Listeners
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.quotas.manager import ClientQuotaManager
from kwire.server.security.tls.node_tls import NodeTls
from kwire.server.settings.dynamic_configs import DynamicConfigs

logger = logging.getLogger(__name__)


class NodePublisher(MetadataPublisher):
    """Publisher of the parts that every node has."""

    def __init__(
        self,
        *,
        settings: CurrentSettings,
        dynamic_configs: DynamicConfigs,
        listeners: Sequence[Listeners],
        tls: NodeTls,
        active_controller: ActiveController,
        quotas: Sequence[ClientQuotaManager],
        authorizer: Authorizer,
    ) -> None:
        """`listeners` and `quotas` have one element for each role of the node."""
        self._settings = settings
        self._dynamic_configs = dynamic_configs
        self._listeners = listeners
        self._tls = tls
        self._active_controller = active_controller
        self._quotas = quotas
        self._standard_authorizer = authorizer if isinstance(authorizer, StandardAuthorizer) else None

    def start(self, image: MetadataImage) -> None:
        """Apply the committed image that the metadata log has loaded at start."""
        if self._standard_authorizer is not None:
            self._standard_authorizer.change((), image.acls.values())
        self._dynamic_configs.start(image)
        self._settings_changed()
        self._reload_tls()
        for quotas in self._quotas:
            quotas.load(image)

    def caught_up(self) -> None:
        """Let clients in: the published image contains all that the quorum had committed when this node started."""
        if self._standard_authorizer is not None:
            self._standard_authorizer.ready()

    def publish(self, delta: MetadataDelta) -> None:
        self.publish_acls(delta)
        self.publish_settings(delta)
        self.publish_quotas(delta)

    def publish_acls(self, delta: MetadataDelta) -> None:
        """Apply changed access control entries."""
        if self._standard_authorizer is not None and delta.has_acl_changes:
            self._standard_authorizer.change(*delta.changed_acls())

    def publish_settings(self, delta: MetadataDelta) -> bool:
        """Apply changed settings; return True if there were any."""
        is_changed = self._dynamic_configs.apply(delta)
        if is_changed:
            self._settings_changed()
        if is_changed or self._dynamic_configs.sets_own(delta):
            self._reload_tls()
        return is_changed

    def publish_quotas(self, delta: MetadataDelta) -> None:
        """Apply changed quotas of clients."""
        for quotas in self._quotas:
            quotas.apply(delta)

    def controller_changed(self) -> None:
        self._active_controller.controller_changed()

    def _settings_changed(self) -> None:
        settings, texts = self._settings.of(ListenerSettings), self._dynamic_configs.texts
        apply_each(*(partial(listeners.update_limits, settings, texts) for listeners in self._listeners))

    def _reload_tls(self) -> None:
        self._tls.reload_soon(self._dynamic_configs.texts, self._settings.values)


def apply_each(*changes: Callable[[], object]) -> None:
    """Apply changed settings to several parts. If one cannot apply them, the others, and the node, continue."""
    for change in changes:
        try:
            change()
        except Exception:
            logger.exception("a change of the settings could not be applied")
