"""Where the compatibility suites keep what they fetch and what their brokers write."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
