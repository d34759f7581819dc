"""kafka-acls and kafka-delegation-tokens on brokers without authorizer and delegation tokens."""


def test_there_are_no_acls_without_an_authorizer(both, topic):
    add = ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", topic)
    for arguments in (("--list",), add):
        rejected = both.run("kafka-acls", *arguments, status=1)
        assert "No Authorizer is configured" in rejected.said


def test_there_are_no_delegation_tokens(both, tmp_path):
    settings = tmp_path / "client.properties"
    settings.write_text("client.id=tokens\n")
    asked = both.run("kafka-delegation-tokens", "--describe", "--command-config", str(settings), status=1)
    assert "not allowed on PLAINTEXT" in asked.errors
