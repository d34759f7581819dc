"""Spark over SASL_SSL: with a user's password, and with delegation tokens of Spark's own provider."""

from contextlib import contextmanager

import pytest

from compat_tests.harness.payloads import numbered
from compat_tests.security.conftest import provider, secured  # noqa: F401 fixtures
from compat_tests.security.secured import PLAINTEXT, SASL_SSL
from kwire.server.security.sasl.jaas import SCRAM_MODULE
from spark_jobs.tests.support import SECONDS, create_topic, rows, source, to_topic, topic_with

MECHANISM = "SCRAM-SHA-512"
CLUSTER = "spark.kafka.clusters.proof."


def with_password(login):
    """Return Kafka's settings of a login."""
    jaas = f'{SCRAM_MODULE} required username="{login.user}" password="{login.password}";'
    return trusting(login) | {
        "security.protocol": SASL_SSL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": jaas,
    }


def trusting(login):
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.authority)}


def options(settings):
    """Return the settings as options of Spark's source and sink."""
    return {f"kafka.{name}": value for name, value in settings.items()}


def copied(spark, login, origin, target, *, checkpoint, **more):
    """Copy a topic to another one with a stream, and return the values of the copies in a batch."""
    frame = source(
        spark.readStream, login.address, subscribe=origin, startingOffsets="earliest", failOnDataLoss="true", **more
    )
    writer = to_topic(frame.select("key", "value").writeStream, login.address).options(**more).option("topic", target)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS)
    return sorted(int(each.value) for each in rows(source(spark.read, login.address, subscribe=target, **more)))


@pytest.fixture
def topics(secured, unique):  # noqa: F811 the fixture
    """Return a topic with records, and an empty one."""
    origin, target = unique("origin"), unique("target")
    topic_with(secured.addresses[PLAINTEXT], origin, numbered(50))
    create_topic(secured.addresses[PLAINTEXT], target)
    return origin, target


@pytest.mark.short
def test_a_stream_and_a_batch_with_a_password(spark, secured, topics, tmp_path):  # noqa: F811
    login = secured.login(SASL_SSL, MECHANISM)
    found = copied(spark, login, *topics, checkpoint=tmp_path, **options(with_password(login)))
    assert found == list(range(50))


def test_a_wrong_password_fails_the_query(spark, secured, topics):  # noqa: F811
    login = secured.login(SASL_SSL, MECHANISM, password="wrong")
    frame = source(spark.read, login.address, subscribe=topics[0], **options(with_password(login)))
    with pytest.raises(Exception, match="SaslAuthenticationException: Authentication failed"):
        frame.count()


@contextmanager
def delegation_token(spark, login):
    """Let Spark's provider get a token with a user's password; queries that name the brokers of the login use it.

    The token is still known to Hadoop afterwards, and Spark needs its settings, so only the address is taken away.
    """
    jvm = spark.sparkContext._jvm  # noqa: SLF001 Spark's provider has no interface in Python
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    password = {f"kafka.{name}": value for name, value in with_password(login).items()}
    settings = {
        "auth.bootstrap.servers": login.address,
        "target.bootstrap.servers.regex": login.address.replace(".", r"\."),
        "security.protocol": SASL_SSL,
        "sasl.token.mechanism": MECHANISM,
        **trusting(login),
        **password,
    }
    for name, value in settings.items():
        conf.set(CLUSTER + name, value)
    credentials = jvm.org.apache.hadoop.security.Credentials()
    hadoop = jvm.org.apache.hadoop.conf.Configuration()
    tokens = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    expires = tokens.obtainDelegationTokens(hadoop, conf, credentials)
    assert expires.isDefined(), "Spark's provider got no token"
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    user.addCredentials(credentials)
    assert credentials.numberOfTokens() == 1
    try:
        yield
    finally:
        conf.set(f"{CLUSTER}target.bootstrap.servers.regex", "none")


def test_a_stream_and_a_batch_with_a_delegation_token(spark, secured, topics, tmp_path):  # noqa: F811
    login = secured.login(SASL_SSL, MECHANISM)
    with delegation_token(spark, login):
        assert copied(spark, login, *topics, checkpoint=tmp_path, **options(trusting(login))) == list(range(50))
