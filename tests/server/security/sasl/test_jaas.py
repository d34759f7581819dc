"""JAAS strings: those of stock compose files, wrong ones, and a fuzz."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.server.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasError, parse_jaas

COMPOSE = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret" '
    'user_admin="admin-secret" user_alice="alice\'s";'
)
OTHER_FORMS = {
    f"{SCRAM_MODULE} required;": {},
    f"{SCRAM_MODULE}\n  REQUIRED\n  username=\"a\"\n  password='b'\n;\n": {"username": "a", "password": "b"},
    f"{SCRAM_MODULE} sufficient username=admin password=adm-in_1.x;": {"username": "admin", "password": "adm-in_1.x"},
    f'/* a */ {SCRAM_MODULE} optional // b\n "user name"="c" / d\n ;': {"user name": "c"},
    SCRAM_MODULE + r""" requisite a="\"\\\'\n\t\101\7x" ; """: {"a": "\"\\'\n\tA\7x"},
    f"{SCRAM_MODULE} required a = 'x' a=\"y\";": {"a": "y"},
    f"{SCRAM_MODULE} required a=ü§;": {"a": "ü§"},
}
SECRET = "Geheim"
WRONG = {
    "": "JAAS config property does not contain any login modules",
    "  // nothing": "JAAS config property does not contain any login modules",
    f"{PLAIN_MODULE}": "a control flag, one of required, requisite, sufficient, optional, is missing at the end",
    f"{PLAIN_MODULE} {SECRET};": "invalid login module control flag, at character 57; use required, requisite, "
    "sufficient, optional",
    f"{PLAIN_MODULE} required": "JAAS config entry not terminated by semi-colon",
    f'{PLAIN_MODULE} required password="{SECRET}"': "JAAS config entry not terminated by semi-colon",
    f"{PLAIN_MODULE} required password;": "value not specified for the key at character 66",
    f"{PLAIN_MODULE} required password=;": "a value is missing at character 75",
    f"{PLAIN_MODULE} required password=1{SECRET};": "this character needs quotes, at character 75",
    f"{PLAIN_MODULE} required password={SECRET}!;": "this character needs quotes, at character 81",
    f'{PLAIN_MODULE} required password="{SECRET};': "this quote has no end in its line, at character 75",
    f'{PLAIN_MODULE} required password="{SECRET}\n";': "this quote has no end in its line, at character 75",
    f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;": "JAAS config property contains 2 login modules, should be 1 "
    "module",
    "= required;": "the name of a login module is missing at character 1",
}
_KEYS = st.text(min_size=1)
_PIECES = st.sampled_from(
    [PLAIN_MODULE, "required", "username", "=", ";", '"', "'", "\\", "\n", " ", "//", "/*", "*/", SECRET, "1", "é"]
)


def test_the_string_of_a_compose_file_is_read() -> None:
    module = parse_jaas(COMPOSE)
    assert module.name == PLAIN_MODULE
    assert dict(module.options) == {
        "username": "admin",
        "password": "admin-secret",
        "user_admin": "admin-secret",
        "user_alice": "alice's",
    }
    assert "secret" not in repr(module)


@pytest.mark.parametrize("text", OTHER_FORMS)
def test_other_forms_are_read(text: str) -> None:
    module = parse_jaas(text)
    assert module.name == SCRAM_MODULE
    assert dict(module.options) == OTHER_FORMS[text]


@pytest.mark.parametrize("text", WRONG)
def test_an_error_names_the_position_and_no_secret(text: str) -> None:
    with pytest.raises(JaasError) as error:
        parse_jaas(text)
    assert str(error.value) == WRONG[text]
    assert SECRET not in str(error.value)


@given(st.dictionaries(_KEYS, st.text()))
def test_quoted_options_are_read_as_they_were_written(options: dict[str, str]) -> None:
    text = " ".join(f"{_quoted(key)}={_quoted(value)}" for key, value in options.items())
    assert dict(parse_jaas(f"{PLAIN_MODULE} required {text};").options) == options


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


@given(st.one_of(st.text(), st.lists(_PIECES).map("".join)))
def test_any_text_is_a_module_or_an_error_in_one_line_without_its_words(text: str) -> None:
    try:
        module = parse_jaas(text)
    except JaasError as error:
        assert "\n" not in str(error)
        assert SECRET not in str(error)
    else:
        assert module.name
        assert all(isinstance(value, str) for value in module.options.values())
