"""The image under test, and its base image.

If python:3.11-slim-bookworm cannot be pulled, a replacement is built from Debian's own packages and imported under
the same name: Debian 12 with its Python 3.11. It trusts the certificates that this machine trusts. The Dockerfile is
the same for both.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from compat_tests.harness.paths import CACHE, ROOT

BASE_IMAGE = "python:3.11-slim-bookworm"
BASE_FILES = CACHE / "docker" / "base.tar"
SUITE = "bookworm"
PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MACHINE_CERTIFICATES = Path("/usr/local/share/ca-certificates")
CONTEXT_CERTIFICATES = ROOT / "docker" / "certificates"
PULL_SECONDS = 300

#: Settings of this machine's pip that a build needs too.
PIP_SETTINGS = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TRUSTED_HOST")


def docker(*arguments: str, check: bool = True) -> str:
    """Run the docker command and return its output."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        said = (done.stdout + done.stderr)[-4000:]
        raise RuntimeError(f"docker {' '.join(arguments)}: status {done.returncode}\n{said}")
    return done.stdout.strip()


def require_base_image() -> str:
    """Make sure that the base image exists; return where it came from."""
    if docker("image", "ls", "--quiet", BASE_IMAGE):
        return "was there"
    if pulled():
        return "pulled"
    if not BASE_FILES.exists():
        make_base_files()
    docker("import", str(BASE_FILES), BASE_IMAGE)
    return "made from Debian's packages"


def pulled() -> bool:
    command = ["docker", "pull", "--quiet", BASE_IMAGE]
    try:
        return subprocess.run(command, timeout=PULL_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def make_base_files() -> None:
    """Run debootstrap into the cache and pack the result into one file, so that the next run downloads nothing."""
    tree = BASE_FILES.parent / "base"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    try:
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(tree)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if CERTIFICATES.exists():
            shutil.copyfile(CERTIFICATES, tree / CERTIFICATES.relative_to("/"))
        unfinished = BASE_FILES.with_suffix(".part")
        leave_out = ["--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*"]
        subprocess.run(["tar", "-C", str(tree), *leave_out, "-cf", str(unfinished), "."], check=True)
        unfinished.rename(BASE_FILES)
    finally:
        shutil.rmtree(tree, ignore_errors=True)


@contextlib.contextmanager
def own_certificates() -> Iterator[None]:
    """Make the certificate authorities of this machine's network available to a build; remove them afterwards."""
    copies = [CONTEXT_CERTIFICATES / path.name for path in MACHINE_CERTIFICATES.glob("*.crt")]
    try:
        for copy in copies:
            shutil.copyfile(MACHINE_CERTIFICATES / copy.name, copy)
        yield
    finally:
        for copy in copies:
            copy.unlink(missing_ok=True)


def build(tag: str, file: str = "Dockerfile") -> None:
    """Build an image with the machine's own network and pip settings."""
    settings = [part for name in PIP_SETTINGS if os.environ.get(name) for part in ("--build-arg", name)]
    dockerfile = str(ROOT / "docker" / file)
    with own_certificates():
        docker("build", "--network", "host", "--force-rm", *settings, "-f", dockerfile, "-t", tag, str(ROOT))
