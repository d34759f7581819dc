"""APIs for ACLs, credentials and authentication."""
