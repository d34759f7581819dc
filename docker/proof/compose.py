"""Interface to a Compose project of one of the files in docker/."""

import os
import subprocess

from compat_tests.harness.paths import ROOT


def compose_command():
    """Return the command of Docker's Compose plug-in or, if it is missing, of the older docker-compose program."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    return ["docker", "compose"] if plugin else ["docker-compose"]


class Project:
    """Compose project with its name and the environment variables that the file uses."""

    def __init__(self, file, name, **environment):
        self.name = name
        self._environment = os.environ | environment
        self._command = [*compose_command(), "-p", name, "-f", str(ROOT / "docker" / file)]

    def __call__(self, *arguments):
        """Run Compose and return its output. Raises if it fails."""
        done = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
