"""Row 36: subjects of certificates as Java writes them, and rules that map them to principals as Apache Kafka does."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from kwire.server.security.tls.distinguished_names import escaped, name_of_subject, subject_of
from kwire.server.security.tls.principal_mapping import NAME_CHARACTERS_MAX, NoRuleMatchesError, PrincipalMapper
from kwire.server.security.tls.tls_settings import TlsRejected
from tests.support.certificates import Authority, element, name_of

CN, ORG, OU, C = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.COUNTRY_NAME,
)
EMAIL = NameOID.EMAIL_ADDRESS


def shown(*attributes: tuple[ObjectIdentifier, str]) -> str:
    return name_of_subject(name_of(attributes).public_bytes())


def test_row_36_the_subject_is_that_of_the_certificate() -> None:
    certificate = Authority().issue(name_of([(C, "DE"), (CN, "a,b")])).certificate.public_bytes(Encoding.DER)
    assert subject_of(certificate) == r"CN=a\,b,C=DE"
    for end in range(0, len(certificate), 7):
        with pytest.raises(ValueError, match=" "):
            subject_of(certificate[:end])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (shown((C, "DE"), (ORG, "Example"), (OU, "Data"), (CN, "broker-1")), "CN=broker-1,OU=Data,O=Example,C=DE"),
        (
            shown((NameOID.DOMAIN_COMPONENT, "org"), (NameOID.DOMAIN_COMPONENT, "example"), (NameOID.USER_ID, "u")),
            "UID=u,DC=example,DC=org",
        ),
        (
            shown((NameOID.STATE_OR_PROVINCE_NAME, "s"), (NameOID.LOCALITY_NAME, "l"), (NameOID.STREET_ADDRESS, "r")),
            "STREET=r,L=l,ST=s",
        ),
        (shown((CN, "a"), (EMAIL, "a@b.c")), "1.2.840.113549.1.9.1=#1605614062 2e63".replace(" ", "") + ",CN=a"),
        (shown((CN, 'a,b+c"d\\e<f>g;h#i=j')), r"CN=a\,b\+c\"d\\e\<f\>g\;h\#i\=j"),
        (shown((CN, "  two  ")), r"CN=\ \ two\ \ "),
        (shown((CN, " ")), r"CN=\ "),
        (shown((CN, "Jürgen Ø")), "CN=Jürgen Ø"),
        (shown((CN, "a\0b")), r"CN=a\00b"),
        (shown(), ""),
    ],
    ids=str,
)
def test_row_36_subjects_have_javas_form(name: str, expected: str) -> None:
    assert name == expected


def test_row_36_a_part_with_several_attributes_is_joined_by_plus() -> None:
    both = x509.RelativeDistinguishedName([x509.NameAttribute(CN, "a"), x509.NameAttribute(NameOID.USER_ID, "b")])
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(ORG, "x")]), both])
    assert name_of_subject(name.public_bytes()) in ("CN=a+UID=b,O=x", "UID=b+CN=a,O=x")


def test_row_36_a_value_that_is_no_text_is_shown_as_hex() -> None:
    bits = x509.NameAttribute(NameOID.X500_UNIQUE_IDENTIFIER, b"\x00\x05", _ASN1Type.BitString)
    assert name_of_subject(x509.Name([bits]).public_bytes()) == "2.5.4.45=#03020005"
    value = element(0x30, element(0x06, bytes([0x55, 4, 3])) + element(0x02, b"\x07"))
    assert name_of_subject(element(0x30, element(0x31, value))) == "CN=#020107"


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=30)


def unescaped(text: str) -> str:
    """Return the value of an escaped text, by the rules of RFC 2253."""
    found, position = "", 0
    while position < len(text):
        if text[position] != "\\":
            found += text[position]
            position += 1
        elif text[position + 1 : position + 3] == "00":
            found += "\0"
            position += 3
        else:
            found += text[position + 1]
            position += 2
    return found


@given(TEXT)
def test_row_36_escapes_can_be_undone_and_hide_no_separator(text: str) -> None:
    shown_text = escaped(text)
    assert unescaped(shown_text) == text
    without_pairs = "".join(shown_text.replace("\\\\", "").split("\\,"))
    assert "," not in without_pairs
    assert not shown_text.startswith((" ", "#"))


@given(st.lists(st.tuples(st.sampled_from([CN, ORG, OU]), TEXT), max_size=4))
def test_row_36_different_subjects_have_different_names(parts: list[tuple[ObjectIdentifier, str]]) -> None:
    try:
        name = shown(*parts)
    except ValueError:  # too long for the attribute
        return
    words = {CN: "CN", ORG: "O", OU: "OU"}
    assert name == ",".join(f"{words[kind]}={escaped(text)}" for kind, text in reversed(parts))


@given(st.binary(max_size=60))
def test_row_36_bytes_that_are_no_name_are_refused(data: bytes) -> None:
    try:
        name = name_of_subject(data)
    except ValueError:
        return
    assert bool(name) is (data != element(0x30, b""))


# --- rules

SUBJECT = "CN=kafka-server1,OU=KafkaUsers,O=Example,C=DE"


@pytest.mark.parametrize(
    ("rules", "subject", "expected"),
    [
        ("DEFAULT", SUBJECT, SUBJECT),
        (" DEFAULT ", SUBJECT, SUBJECT),
        ("RULE:^CN=(.*?),.*$/$1/", SUBJECT, "kafka-server1"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", SUBJECT, SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=s,OU=ServiceUsers,O=x", "s"),
        (
            "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,DEFAULT",
            "CN=Admin1,OU=Admins,O=U,L=L,ST=S,C=C",
            "admin1@admins",
        ),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "OU=x,CN=Alice.B,O=y", "alice.b"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U", "cn=a,ou=b,dc=c,dc=d", "A@B"),
        ("RULE:^CN=(.*?),.*$/$1@$4/", SUBJECT, "kafka-server1@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", SUBJECT, "kafka-server12"),
        (r"RULE:^CN=(.*?),.*$/a\/b\$1/", SUBJECT, "a/b$1"),
        (r"RULE:^CN=a\/b$/slash/", "CN=a/b", "slash"),
        ("RULE:^CN=(?<user>[a-z]+).*$/${user}/", SUBJECT, "kafka"),
        ("RULE:^CN=nobody$/x/ , RULE:^CN=(k).*$/$1/", SUBJECT, "k"),
        (",, DEFAULT,", SUBJECT, SUBJECT),
        ("RULE:.*/x/", "a", "xx"),  # as Java's replaceAll: the empty rest matches too
    ],
)
def test_row_36_the_first_rule_that_matches_decides(rules: str, subject: str, expected: str) -> None:
    assert PrincipalMapper(rules).name_of(subject) == expected


@pytest.mark.parametrize(
    ("rules", "subject"),
    [
        ("RULE:^CN=x$/x/", SUBJECT),
        ("RULE:CN=kafka/part/", SUBJECT),  # the whole name must match
        ("", SUBJECT),
        ("DEFAULT", "CN=" + "a" * NAME_CHARACTERS_MAX),
    ],
)
def test_row_36_a_subject_without_a_rule_is_refused(rules: str, subject: str) -> None:
    with pytest.raises(NoRuleMatchesError):
        PrincipalMapper(rules).name_of(subject)


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULTS",
        "RULE:CN",
        "RULE:^CN=(.*$/$1/",
        "RULE:^CN=(.*)$/$1/X",
        "RULE:^CN=(.*)$/$1/LU",
        "RULE:^CN=(.*)$/$1",
        "RULE:^CN=(.*)$/${user}/",
        "DEFAULT RULE:a/b/",
        "DEFAULT;DEFAULT",
    ],
)
def test_row_36_rules_that_cannot_be_read_are_refused_by_name(rules: str) -> None:
    with pytest.raises(TlsRejected, match=r"^ssl\.principal\.mapping\.rules: "):
        PrincipalMapper(rules)


@given(st.text(alphabet="RULEDFAT:/\\,$1() L^", max_size=40))
def test_row_36_any_text_is_rules_or_is_refused(text: str) -> None:
    try:
        mapper = PrincipalMapper(text)
    except TlsRejected:
        return
    try:
        name = mapper.name_of(SUBJECT)
    except NoRuleMatchesError:
        return
    assert isinstance(name, str)
