"""Requests: dispatch, context, authorization, and the services that handlers use."""
