"""Sources of an earlier kwire, from the repository's history."""

import io
import subprocess
import tarfile

from compat_tests.harness.paths import ROOT


def unpack_sources(commit, directory):
    """Return a folder in which `python -m kwire` runs the commit's sources."""
    command = ["git", "archive", commit, "kwire"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        found.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has no data_filter
        found.extractall(directory)
    return directory
