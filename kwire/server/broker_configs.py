"""The broker's configuration keys: names, types, defaults and checks. kwire.server.config makes them into a
BrokerConfig.

Besides the keys below, every broker key that gives a topic key its default (kwire.cluster.topic_configs) is known.
Keys in ACCEPTED belong to Kafka's own machinery (threads, buffers) and change nothing here; any other key is warned
of once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.cluster.config_keys import ConfigKey, ConfigType, at_least, between, table
from kwire.cluster.topic_configs import TOPIC_KEYS

_T = ConfigType
_GIGABYTE = 1024**3


def _key(name: str, kind: ConfigType, default: str | None, doc: str, **more: object) -> ConfigKey:
    return ConfigKey(name=name, type=kind, default=default, doc=doc, **more)  # type: ignore[arg-type]


_OWN = (
    _key("node.id", _T.INT, "1", "This node's id in the cluster.", check=at_least(0)),
    _key("process.roles", _T.LIST, "broker,controller", "What this process is: broker and controller in one."),
    _key("controller.quorum.voters", _T.LIST, "", "Voters of a static quorum, id@host:port."),
    _key("controller.quorum.bootstrap.servers", _T.LIST, "", "Where to find the quorum's controllers."),
    _key("controller.listener.names", _T.LIST, "CONTROLLER", "Listeners that belong to the controller."),
    _key("listeners", _T.LIST, "PLAINTEXT://127.0.0.1:9092", "What to listen on, name://host:port; port 0 picks one."),
    _key("advertised.listeners", _T.LIST, None, "Addresses that clients are told; by default those of listeners."),
    _key(
        "listener.security.protocol.map",
        _T.LIST,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name; only PLAINTEXT is served.",
    ),
    _key("inter.broker.listener.name", _T.STRING, None, "Listener that brokers use among themselves."),
    _key("log.dirs", _T.LIST, None, "Directories of the logs; takes precedence over log.dir."),
    _key("log.dir", _T.STRING, "data", "The directory of the logs."),
    _key("metadata.log.dir", _T.STRING, None, "Directory of the metadata log; by default the first of log.dirs."),
    _key("broker.rack", _T.STRING, None, "The rack that this broker stands in."),
    _key("num.partitions", _T.INT, "1", "Partitions of a topic whose creator did not say.", check=at_least(1)),
    _key(
        "default.replication.factor",
        _T.INT,
        "1",
        "Replicas of a topic whose creator did not say.",
        check=at_least(1),
    ),
    _key("quota.window.num", _T.INT, "11", "Samples over which the use of a client quota is taken.", check=at_least(1)),
    _key("quota.window.size.seconds", _T.INT, "1", "Length of such a sample in seconds.", check=at_least(1)),
    _key(
        "controller.quota.window.num",
        _T.INT,
        "11",
        "Samples whose quota together is the most that controller mutations may do at once.",
        check=at_least(1),
    ),
    _key("controller.quota.window.size.seconds", _T.INT, "1", "Length of such a sample in seconds.", check=at_least(1)),
    _key("auto.create.topics.enable", _T.BOOLEAN, "true", "Whether asking for a topic's metadata creates it."),
    _key("delete.topic.enable", _T.BOOLEAN, "true", "Whether topics may be deleted."),
    _key(
        "offsets.topic.num.partitions",
        _T.INT,
        "50",
        "Partitions of __consumer_offsets, fixed for good.",
        check=at_least(1),
    ),
    _key("offsets.topic.replication.factor", _T.SHORT, "1", "Replicas of __consumer_offsets.", check=at_least(1)),
    _key("offsets.topic.segment.bytes", _T.INT, "104857600", "segment.bytes of __consumer_offsets.", check=at_least(1)),
    _key(
        "offsets.retention.minutes",
        _T.INT,
        "10080",
        "Minutes that a committed offset outlives its group's last member.",
        check=at_least(1),
    ),
    _key(
        "offsets.retention.check.interval.ms",
        _T.LONG,
        "600000",
        "Milliseconds between two searches for expired offsets.",
        check=at_least(1),
    ),
    _key("offset.metadata.max.bytes", _T.INT, "4096", "Most bytes of text that may go with a committed offset."),
    _key(
        "group.initial.rebalance.delay.ms",
        _T.INT,
        "0",
        "Milliseconds that an empty group's first rebalance waits for more members.",
    ),
    _key("group.min.session.timeout.ms", _T.INT, "6000", "Shortest session timeout that a member may ask for."),
    _key("group.max.session.timeout.ms", _T.INT, "1800000", "Longest session timeout that a member may ask for."),
    _key("group.max.size", _T.INT, "2147483647", "Most members of a group.", check=at_least(1)),
    _key("socket.request.max.bytes", _T.INT, "104857600", "Largest request in bytes.", check=at_least(1)),
    _key("max.connections", _T.INT, "2147483647", "Most connections, over all listeners.", check=at_least(0)),
    _key("max.connections.per.ip", _T.INT, "2147483647", "Most connections from one address.", check=at_least(0)),
    _key("connections.max.idle.ms", _T.LONG, "600000", "Milliseconds after which a silent connection is closed."),
    _key(
        "queued.max.request.bytes",
        _T.LONG,
        str(_GIGABYTE // 4),
        "Bytes of requests held at a time, over all connections; finite by default, unlike Kafka's.",
        check=lambda value: "" if value == -1 or value >= 1024 * 1024 else "Value must be -1 or at least 1048576",
    ),
    _key("fetch.max.bytes", _T.INT, "57671680", "Most bytes of one fetch answer.", check=at_least(1024)),
    _key("max.incremental.fetch.session.cache.slots", _T.INT, "1000", "Fetch sessions kept.", check=at_least(0)),
    _key(
        "max.request.partition.size.limit",
        _T.INT,
        "2000",
        "Most partitions in one DescribeTopicPartitions answer.",
        check=at_least(1),
    ),
    _key(
        "transaction.max.timeout.ms",
        _T.INT,
        "900000",
        "Longest transaction timeout that a producer may ask for.",
        check=at_least(1),
    ),
    _key(
        "producer.id.expiration.ms",
        _T.INT,
        "86400000",
        "Milliseconds after which the sequence state of a silent producer is forgotten.",
        check=at_least(1),
    ),
    _key(
        "producer.id.expiration.check.interval.ms",
        _T.INT,
        "600000",
        "Milliseconds between two searches for expired producers.",
        check=at_least(1),
    ),
    _key(
        "log.retention.check.interval.ms",
        _T.LONG,
        "300000",
        "Milliseconds between two applications of retention.",
        check=at_least(1),
    ),
    _key(
        "log.initial.task.delay.ms",
        _T.LONG,
        "30000",
        "Milliseconds from the start to the first application of retention.",
        check=at_least(0),
    ),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        _T.INT,
        "60000",
        "Milliseconds between two writes of the recovery points.",
        check=at_least(0),
    ),
)


def _topic_synonyms() -> Iterator[ConfigKey]:
    """The broker keys that topic keys take their defaults from."""
    for key in TOPIC_KEYS.values():
        for position, (name, factor) in enumerate(key.synonyms):
            is_only_name = len(key.synonyms) == 1
            default = key.default if is_only_name else _COARSE_DEFAULTS.get(name)
            yield ConfigKey(
                name=name,
                type=key.type if factor == 1 else ConfigType.INT,
                default=default,
                check=key.check if factor == 1 else between(-1, 2**31 - 1),
                doc=f"Default of the topic setting {key.name}.",
                dynamic=position == 0,
            )


_COARSE_DEFAULTS = {
    "log.retention.hours": "168",
    "log.roll.hours": "168",
    "log.roll.jitter.hours": "0",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
}

BROKER_KEYS: Mapping[str, ConfigKey] = table(*_OWN, *_topic_synonyms())

ACCEPTED = frozenset(
    {
        "background.threads",
        "broker.id",
        "log.cleaner.enable",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        "queued.max.requests",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
    }
)
"""Known to Kafka's stock configurations and without effect here."""
