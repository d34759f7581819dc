"""Paths of the compatibility suites: downloads and brokers' data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
