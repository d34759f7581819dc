"""UnregisterBroker on a cluster of one: unknown ids get Kafka's error, and the only broker stays registered."""

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.raw_client import RawClient


def test_a_broker_that_is_not_registered_cannot_be_unregistered(client: RawClient) -> None:
    unknown = client.ask(UnregisterBrokerRequest(broker_id=77), 0)
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert unknown.error_message == "Broker ID 77 is not currently registered"


def test_the_only_broker_stays(client: RawClient) -> None:
    [own] = client.ask(MetadataRequest(topics=None), 9).brokers
    rejected = client.ask(UnregisterBrokerRequest(broker_id=own.node_id), 0)
    assert rejected.error_code == ErrorCode.INVALID_REQUEST
    assert [each.node_id for each in client.ask(MetadataRequest(topics=None), 9).brokers] == [own.node_id]
