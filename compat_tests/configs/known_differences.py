"""Keys whose answers differ from Apache Kafka's on purpose, each listed in docs/differences.md."""

from kwire.cluster.config_keys import Use
from kwire.cluster.configs.broker import BROKER_KEYS

#: Told to each broker by its harness, or its own identity.
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
#: Keys for which kwire has a default of its own.
OWN_DEFAULT = {
    "group.initial.rebalance.delay.ms",
    "log.dir",
    "queued.max.request.bytes",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}
#: Kafka sets it for all brokers by itself while eligible leader replicas are on, and guards it.
OF_A_FEATURE = {"min.insync.replicas"}

VALUES_DIFFER = OF_THE_NODE | OWN_DEFAULT | OF_A_FEATURE

#: What kwire refuses where Kafka would take it; of a class, Kafka sees later that it is not there.
REFUSED = {name for name, key in BROKER_KEYS.items() if key.use is Use.REFUSED} | {"replica.selector.class"}
#: The same code in other words; what is accepted depends on the listeners that a broker has.
LISTENERS = {"listeners", "listener.security.protocol.map"}
