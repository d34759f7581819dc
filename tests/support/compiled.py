"""Detection of compiled code: true if the tests run against the compiled wheel (`make test-compiled`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import kwire.cluster.partitions.partition

IS_COMPILED = Path(kwire.cluster.partitions.partition.__file__).suffix != ".py"

replaces_methods = pytest.mark.skipif(IS_COMPILED, reason="replaces a method, which a compiled class does not allow")
