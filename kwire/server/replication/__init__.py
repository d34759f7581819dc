"""Replicas of a broker: fetchers, in-sync sets, log directories, moves, losses."""
