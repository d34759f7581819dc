"""Imports at start: only the message schemas of served APIs, because imports are a large part of the start time."""

import subprocess
import sys

from kwire.server.apis import SERVED

BESIDE_REQUESTS = {
    "share_state_records",
    "consumer_group_records",
    "consumer_protocol",
    "control_records",
    "group_records",
    "header",
    "metadata_records",
    "share_group_records",
    "streams_group_records",
    "transaction_records",
}
OF_THE_QUORUM = {
    "add_raft_voter",
    "begin_quorum_epoch",
    "end_quorum_epoch",
    "fetch_snapshot",
    "remove_raft_voter",
    "update_raft_voter",
    "vote",
}
OF_THE_CONTROLLER = {
    "allocate_producer_ids",
    "alter_partition",
    "assign_replicas_to_dirs",
    "broker_heartbeat",
    "broker_registration",
    "controller_registration",
    "default_principal_data",
    "envelope",
}
PROGRAM = """
import sys
import kwire.cli
print(*(name.removeprefix("kwire.protocol.messages.") for name in sys.modules if "protocol.messages." in name))
"""


def test_a_broker_imports_only_the_messages_that_it_serves() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    served = {api.request.__module__.rpartition(".")[2] for api in SERVED}
    assert served <= set(output.split()) <= served | BESIDE_REQUESTS | OF_THE_QUORUM | OF_THE_CONTROLLER


def test_a_node_without_tls_imports_no_library_for_certificates() -> None:
    program = "import sys, kwire.cli, kwire.server.assembly.broker; print('cryptography' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "False\n"
