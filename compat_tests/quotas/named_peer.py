"""Raw client with a chosen client id, because quotas depend on it."""

import struct

from compat_tests.raw.peer import Peer


class NamedPeer(Peer):
    def __init__(self, bootstrap, client_id):
        super().__init__(bootstrap)
        self.client_id = client_id.encode()

    def header(self, api_key, version, *, flexible):
        self.correlation_id += 1
        header = struct.pack(">hhih", api_key, version, self.correlation_id, len(self.client_id)) + self.client_id
        return header + b"\x00" if flexible else header

    def send_frame(self, frame):
        self.sent_bytes = len(frame)
        super().send_frame(frame)
