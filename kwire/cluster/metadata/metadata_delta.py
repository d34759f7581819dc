"""Differences between two committed metadata images, for the components that apply a change."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.metadata.image import ConfigResource, MetadataImage, TopicImage
from kwire.cluster.metadata.persistent_map import changed_keys
from kwire.cluster.security.acls import Acl


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """Two images, and what differs between them. One delta covers all batches that were committed together.

    Unchanged maps are the same object in both images, and large maps share their unchanged blocks. So the cost of a
    comparison depends on what has changed (docs/decisions/0020).
    """

    before: MetadataImage
    after: MetadataImage

    @property
    def has_config_changes(self) -> bool:
        return self.before.configs is not self.after.configs

    @property
    def has_acl_changes(self) -> bool:
        return self.before.acls is not self.after.acls

    @property
    def has_broker_changes(self) -> bool:
        return self.before.brokers is not self.after.brokers

    @property
    def has_quota_changes(self) -> bool:
        return self.before.client_quotas is not self.after.client_quotas

    def changed_acls(self) -> tuple[list[Acl], list[Acl]]:
        """Return the removed and the added access control entries."""
        before, after = self.before.acls, self.after.acls
        ids = changed_keys(before, after)
        return [before[each] for each in ids if each in before], [after[each] for each in ids if each in after]

    def changed_topics(self) -> list[tuple[TopicImage | None, TopicImage | None]]:
        """Return pairs (before, after) of the topics that changed; None for a topic that does not exist."""
        before, after = self.before.topics, self.after.topics
        return [(before.get(name), after.get(name)) for name in changed_keys(before, after)]

    def has_new_topics(self) -> bool:
        """Return True if a topic was created, also in place of one of the same name."""
        if self.before.topic_names is self.after.topic_names:
            return False
        known = self.before.topic_names
        return any(after is not None and after.topic_id not in known for _, after in self.changed_topics())

    def changed_configs(self) -> list[ConfigResource]:
        """Return the resources whose configuration changed."""
        return changed_keys(self.before.configs, self.after.configs)


def deleted_topics(changes: list[tuple[TopicImage | None, TopicImage | None]]) -> list[TopicImage]:
    """Return the deleted topics, including those replaced by a new topic of the same name."""
    return [
        before
        for before, after in changes
        if before is not None and (after is None or after.topic_id != before.topic_id)
    ]
