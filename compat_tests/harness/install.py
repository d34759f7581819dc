"""Programs from outside Python: asked for by name, installed by the project's own script."""

import subprocess

from compat_tests.harness.paths import ROOT


def install(*names: str) -> None:
    """Each name is one that install.sh knows; programs that are there already cost nothing."""
    subprocess.run([str(ROOT / "compat_tests" / "install.sh"), *names], check=True)
