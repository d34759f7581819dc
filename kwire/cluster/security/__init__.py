"""Access control: operations and resources, access control entries, the standard authorizer."""
