"""Raw client that counts the bytes of its requests, because quotas depend on them and on its client id."""

from compat_tests.raw.peer import Peer


class NamedPeer(Peer):
    def __init__(self, bootstrap, client_id):
        super().__init__(bootstrap, client_id=client_id)
        self.sent_bytes = 0

    def frame(self, request, version):
        frame = super().frame(request, version)
        self.sent_bytes = len(frame) - 4
        return frame
