"""Pitfall 16: ApiVersions responses have header version 0; the response to an unknown version has version 0."""

import struct

import pytest

from compat_tests.raw.peer import Peer
from kwire.protocol.codec import decode_prefix
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.raw_client import sized

ASKED = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.mark.short
@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_same_apis(peer, version):
    answer = peer.ask(ASKED, version)
    assert answer.error_code == 0
    listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert listed[18] == (0, 4)
    assert listed == {each.api_key: (each.min_version, each.max_version) for each in peer.ask(ASKED, 0).api_keys}


def test_features_with_minimum_0_are_returned_from_version_4(peer):
    """Old clients fail on a feature whose lowest version is 0, so version 3 omits it from the supported features."""
    for version in (3, 4):
        answer = peer.ask(ASKED, version)
        supported = {each.name: each.min_version for each in answer.supported_features}
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        assert finalized["metadata.version"] == 30
        assert supported["metadata.version"] >= 1
        if version == 3:
            assert 0 not in supported.values()
        else:
            assert finalized.keys() <= supported.keys()


#: Version ranges of this broker's client APIs in Apache Kafka 4.3.1.
SERVED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
    23: (2, 4), 32: (1, 4), 33: (0, 2), 35: (1, 5), 37: (0, 3), 42: (0, 2), 44: (0, 1), 47: (0, 0), 60: (0, 2),
    61: (0, 0), 75: (0, 0),
}  # fmt: skip


@pytest.mark.parametrize("api_key", SERVED)
def test_the_ranges_are_kafkas(peer, api_key):
    listed = {each.api_key: (each.min_version, each.max_version) for each in peer.ask(ASKED, 4).api_keys}
    assert listed[api_key] == SERVED[api_key]


@pytest.mark.short
@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_version_too_new_is_answered_at_version_0(bootstrap, version):
    with Peer(bootstrap) as peer:
        peer.send_bytes(sized(peer.header(18, version, flexible=True) + b"\x04raw\x021\x00"))
        frame = peer.receive_frame()
        assert struct.unpack_from(">i", frame) == (peer.correlation_id,)
        answer, end = decode_prefix(ApiVersionsResponse, 0, frame, 4)
        assert end == len(frame)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 4)]
        assert peer.ask(ASKED, 4).error_code == 0


@pytest.mark.parametrize("name", ["", "with space", "-dash"])
def test_invalid_software_names_are_rejected(peer, name):
    answer = peer.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 4)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
