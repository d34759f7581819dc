"""Key distribution center (KDC) of MIT Kerberos on loopback, in a directory of its own."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from compat_tests.harness.ports import HOST, free_ports
from compat_tests.harness.waiting import eventually

REALM = "KWIRE.TEST"
CLOCK_SKEW_SECONDS = 1
"""Accepted difference between clocks: a ticket is expired this long after its end."""
_CLIENTS = """[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  clockskew = {skew}
  default_ccache_name = FILE:{directory}/no-tickets
[realms]
  {realm} = {{
    kdc = {address}
  }}
"""
_SERVER = """[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = {address}
[realms]
  {realm} = {{
    database_name = {directory}/principals
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
    max_life = 1h
  }}
[logging]
  kdc = FILE:{directory}/kdc.log
"""


class Kdc:
    """Running KDC, its principals, and the tickets that it issues."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        address = f"{HOST}:{free_ports(1)[0]}"
        names = {"realm": REALM, "address": address, "directory": directory, "skew": CLOCK_SKEW_SECONDS}
        self.configuration = directory / "krb5.conf"
        self.configuration.write_text(_CLIENTS.format(**names))
        (directory / "kdc.conf").write_text(_SERVER.format(**names))
        self.environment = {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(directory),
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
        }
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=os.environ | self.environment) as process:
            try:
                yield
            finally:
                process.terminate()

    def add(self, principal: str) -> Path:
        """Add a principal with random keys; return its key tab."""
        key_tab = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {key_tab} {principal}")
        return key_tab

    def tickets(self, principal: str, *, seconds: int = 3600) -> Path:
        """Return a file with a ticket of a principal, as soon as the KDC issues one."""
        found = self.directory / f"{principal.replace('/', '-')}-{len(list(self.directory.iterdir()))}.tickets"
        key_tab = self.directory / f"{principal.replace('/', '-')}.keytab"
        command = ["kinit", "-k", "-t", str(key_tab), "-c", f"FILE:{found}", "-l", f"{seconds}s", principal]

        def is_issued() -> bool:
            return subprocess.run(command, env=os.environ | self.environment, check=False).returncode == 0

        eventually(is_issued, f"a ticket of {principal}")
        return found

    @staticmethod
    def has_expired(tickets: Path, seconds: int) -> bool:
        """Return True if tickets with this lifetime are of no use, also to a program whose clock is behind."""
        return time.time() > tickets.stat().st_mtime + seconds + CLOCK_SKEW_SECONDS + 1

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=os.environ | self.environment, check=True, stdout=subprocess.DEVNULL)
