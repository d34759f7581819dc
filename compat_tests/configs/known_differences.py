"""Keys whose values differ from Apache Kafka's on purpose; docs/differences.md lists each."""

from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import Use

#: Keys that the harness sets differently for each broker, or that belong to a broker's identity.
OF_THE_NODE = {
    "advertised.listeners",
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "process.roles",
}
#: Keys with a default of kwire's own.
OWN_DEFAULT = {
    "group.initial.rebalance.delay.ms",
    "log.dir",
    "queued.max.request.bytes",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}
#: Kafka sets this key for all brokers and protects it while eligible leader replicas are enabled.
OF_A_FEATURE = {"min.insync.replicas"}

VALUES_DIFFER = OF_THE_NODE | OWN_DEFAULT | OF_A_FEATURE

#: Values that kwire rejects and Kafka accepts; Kafka finds only later that a class does not exist or does not fit.
REJECTED = {name for name, key in BROKER_KEYS.items() if key.use is Use.REJECTED or key.built_in} | {
    "replica.selector.class"
}
#: Keys whose values kwire looks up as names of entry points, after it has read the settings.
PLUG_INS = {name for name, key in BROKER_KEYS.items() if key.names_plug_in}
#: Keys with the same code but another message: the valid values depend on the broker's listeners.
LISTENERS = {"listeners", "listener.security.protocol.map"}
