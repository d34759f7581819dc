"""A Compose project of one of the files in docker/."""

import os
import subprocess

from compat_tests.harness.paths import ROOT


def compose_command():
    """The plug-in of today's Docker, or the program that came before it."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    return ["docker", "compose"] if plugin else ["docker-compose"]


class Project:
    """Calls Compose with a project's name and what the file takes from the environment."""

    def __init__(self, file, name, **environment):
        self.name = name
        self._environment = os.environ | environment
        self._command = [*compose_command(), "-p", name, "-f", str(ROOT / "docker" / file)]

    def __call__(self, *arguments):
        """What it printed; it must succeed."""
        done = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
