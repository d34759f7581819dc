"""Nonsensical settings: rejected with the name of the setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.server.settings.config import SettingError, load_config, make_config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "PLAINTEXT://127.0.0.1:²"),
        ("listeners", "PLAINTEXT://127.0.0.1:" + "9" * 5000),
        ("controller.listener.names", ""),
        ("replica.selector.class", "org.example.MySelector"),
    ],
)
def test_a_malformed_setting_is_named_in_the_error(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: "):
        make_config({name: value})


def test_a_directory_named_in_two_ways_is_named_twice(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="names a directory twice"):
        make_config({"log.dirs": f"{tmp_path},{tmp_path}/"})


def test_an_empty_list_of_directories_is_no_default() -> None:
    with pytest.raises(SettingError, match=r"^log\.dirs: .*must not be empty"):
        make_config({"log.dirs": ""})


@pytest.mark.parametrize("name", ["log.dirs", "metadata.log.dir", "advertised.listeners", "broker.rack"])
@pytest.mark.parametrize("escape", [r"\ud800", r"\u0000"])
def test_settings_that_are_no_text_are_rejected(name: str, escape: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: .* has (half of a character|a NUL)$"):
        load_config(f"{name}=PLAINTEXT://a{escape}b:1")


@pytest.mark.parametrize("name", ["a\0b", "x\ud800"])
def test_a_name_that_is_no_text_is_rejected(name: str) -> None:
    with pytest.raises(SettingError, match=r"^the name '.*' has (half of a character|a NUL)$"):
        make_config({name: "1"})


def test_a_path_is_absolute_before_the_program_goes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = make_config({"log.dirs": "a,b/", "metadata.log.dir": "./b"})
    monkeypatch.chdir("/")
    assert config.log_dirs == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert config.metadata_dir == f"{tmp_path}/b"


def test_a_setting_too_long_for_a_record_is_rejected() -> None:
    with pytest.raises(SettingError, match=r"^broker\.rack: is longer than"):
        make_config({"broker.rack": "r" * 2**15})


def test_a_deleted_current_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingError, match=r"^log\.dirs: data is in the current directory, which was deleted$"):
        make_config({})
    assert make_config({"log.dirs": str(tmp_path)}).metadata_dir == str(tmp_path)
