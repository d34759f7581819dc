"""Tests of the share coordinator."""
