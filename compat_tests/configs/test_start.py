"""Invalid settings in server.properties: kwire rejects what Kafka rejects, in one line that names the setting."""

import subprocess
import sys

import pytest

from compat_tests.configs import truth
from compat_tests.configs.known_differences import PLUG_INS, REJECTED
from compat_tests.configs.probes import values_for
from compat_tests.harness.process import SETTINGS
from kwire.cluster.directory import read_properties
from kwire.server.settings.config import SettingError, make_config

#: kwire needs neither a controller listener nor quorum settings.
NEEDLESS = {"controller.listener.names", "controller.quorum.bootstrap.servers"}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return the settings of a combined node, as Kafka needs them."""
    directory = tmp_path_factory.mktemp("start")
    settings = SETTINGS | {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.bootstrap.servers": "127.0.0.1:19093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
        "log.dirs": str(directory / "data"),
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def rejection(settings):
    try:
        make_config(settings)
    except SettingError as error:
        return str(error)
    return None


def test_startup_settings_are_validated_as_by_kafka(base):
    changes = [(name, value) for name, key in truth.keys("broker").items() for value in values_for(key)]
    assert len(changes) > 4000
    own, differences = read_properties(base.read_text()), []
    for (name, value), kafka in zip(changes, truth.at_start(base, changes), strict=True):
        kwire = rejection(own | {name: value})
        expected = kafka != "ok"
        # kwire rejects the names of plug-ins later, when it looks them up.
        is_listed = name in PLUG_INS if expected else name in REJECTED
        if (kwire is not None) != expected and not is_listed and name not in NEEDLESS:
            differences.append((name, value, kafka, kwire))
        assert kwire is None or "\n" not in kwire
    differences = [each for each in differences if each[0] != "listeners"]
    assert not differences, (len(differences), differences[:20])


@pytest.mark.parametrize(
    "setting",
    [
        "log.retention.ms=0",
        "num.partitions=0",
        "ssl.provider=BC",
        *(f"{name}={value}" for name in sorted(PLUG_INS) for value in ("a.B", "java.lang.Object")),
    ],
)
def test_a_rejected_setting_prints_one_line(tmp_path, setting):
    command = [sys.executable, "-m", "kwire", "server", "--override", f"log.dirs={tmp_path}", "--override", setting]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert setting.split("=")[0] in line
    assert not list(tmp_path.iterdir()), "nothing is touched"
