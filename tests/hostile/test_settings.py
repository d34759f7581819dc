"""Settings that nobody would write on purpose are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.server.settings.config import SettingError, make_config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "PLAINTEXT://127.0.0.1:²"),
        ("listeners", "PLAINTEXT://127.0.0.1:" + "9" * 5000),
        ("controller.listener.names", ""),
        ("replica.selector.class", "org.example.MySelector"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: "):
        make_config({name: value})


def test_a_directory_named_in_two_ways_is_named_twice(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="names a directory twice"):
        make_config({"log.dirs": f"{tmp_path},{tmp_path}/"})


def test_an_empty_list_of_directories_is_no_default() -> None:
    with pytest.raises(SettingError, match=r"^log\.dirs: .*must not be empty"):
        make_config({"log.dirs": ""})
