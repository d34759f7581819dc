#!/bin/sh
# Write the settings of this node, format its volume if it is blank, and start it. Needs CLUSTER_ID, NODE_PASSWORD,
# ADMIN_PASSWORD and PORT, the port of this machine that clients use.
set -eu
umask 077
host=$(hostname)
login="org.apache.kafka.common.security.scram.ScramLoginModule required username"
cat > /tmp/node.properties <<END
process.roles=broker,controller
node.id=${host#broker-}
log.dirs=/var/lib/kwire/data
listeners=CLIENTS://0.0.0.0:9092,NETWORK://0.0.0.0:19092,CONTROLLER://0.0.0.0:9093,HEALTH://127.0.0.1:9999
advertised.listeners=CLIENTS://localhost:$PORT,NETWORK://$host:19092,CONTROLLER://$host:9093,HEALTH://127.0.0.1:9999
# HEALTH is for the health check alone: no other container reaches it, and its user has no rights.
listener.security.protocol.map=CLIENTS:SASL_SSL,NETWORK:SASL_SSL,CONTROLLER:SASL_SSL,HEALTH:PLAINTEXT
inter.broker.listener.name=NETWORK
controller.listener.names=CONTROLLER
controller.quorum.voters=1@broker-1:9093,2@broker-2:9093,3@broker-3:9093
ssl.keystore.type=PEM
ssl.keystore.location=/certificates/$host.pem
ssl.truststore.type=PEM
ssl.truststore.location=/certificates/ca.pem
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.mechanism.controller.protocol=SCRAM-SHA-512
listener.name.clients.scram-sha-512.sasl.jaas.config=$login="node" password="$NODE_PASSWORD";
listener.name.network.scram-sha-512.sasl.jaas.config=$login="node" password="$NODE_PASSWORD";
listener.name.controller.scram-sha-512.sasl.jaas.config=$login="node" password="$NODE_PASSWORD";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:admin
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
END
cat > /tmp/admin.properties <<END
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=/certificates/ca.pem
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=$login="admin" password="$ADMIN_PASSWORD";
END
kwire format --ignore-formatted -t "$CLUSTER_ID" -c /tmp/node.properties \
    --add-scram "SCRAM-SHA-512=[name=node,password=$NODE_PASSWORD]" \
    --add-scram "SCRAM-SHA-512=[name=admin,password=$ADMIN_PASSWORD]"
exec kwire server /tmp/node.properties
