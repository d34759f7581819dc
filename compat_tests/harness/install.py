"""Programs that are not Python packages; the project's own script installs them by name."""

import subprocess

from compat_tests.harness.paths import ROOT


def install(*names: str) -> None:
    """Install programs by their names in install.sh; installed ones are skipped at once."""
    subprocess.run([str(ROOT / "compat_tests" / "install.sh"), *names], check=True)
