"""Tests of listeners, logins and access control of a node."""
