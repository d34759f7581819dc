"""Access control entries as records of the metadata log."""

from __future__ import annotations

from uuid import UUID

from kwire.cluster.security.acls import Acl
from kwire.protocol.messages.metadata_records import AccessControlEntryRecord


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """Return the entry of a record."""
    return Acl(
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission=record.permission_type,
    )


def acl_record(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    """Return the record of an entry."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
