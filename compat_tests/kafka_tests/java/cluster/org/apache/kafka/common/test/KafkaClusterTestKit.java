package org.apache.kafka.common.test;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kwire.tests.Marks;
import kwire.tests.Nodes;
import kwire.tests.Stubs;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.controller.Controller;

/** Replacement of Apache Kafka's class of this name: the same cluster, as kwire processes. */
public class KafkaClusterTestKit implements AutoCloseable {
    private final TestKitNodes layout;
    private final Nodes nodes;
    private final Stubs stubs;
    private final MockFaultHandler fatal = new MockFaultHandler("fatal");
    private final MockFaultHandler nonFatal = new MockFaultHandler("nonFatal");

    private KafkaClusterTestKit(TestKitNodes layout, Nodes nodes) {
        this.layout = layout;
        this.nodes = nodes;
        this.stubs = new Stubs(nodes);
    }

    /** The same as in Apache Kafka's class. */
    public static class Builder {
        private final TestKitNodes layout;
        private final Map<String, Object> settings = new HashMap<>();
        private final Map<String, Short> features = new TreeMap<>();
        private boolean standalone;

        public Builder(TestKitNodes layout) {
            this.layout = layout;
        }

        public Builder setConfigProp(String key, Object value) {
            settings.put(key, value);
            return this;
        }

        public Builder setStandalone(boolean standalone) {
            this.standalone = standalone;
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> voters) {
            throw Marks.insides("Formatter.setInitialControllers");
        }

        public Builder setDeleteOnClose(boolean deleteOnClose) {
            return this;
        }

        /** Requested features other than metadata.version; all other features have each side's default. */
        public Builder setFeatures(Map<String, Short> levels) {
            features.putAll(levels);
            return this;
        }

        /** Build the cluster; one with SASL has the users of Apache Kafka's class, in this JVM's JAAS configuration. */
        public KafkaClusterTestKit build() throws IOException {
            if (layout.brokerListenerProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
                JaasModule users = JaasModule.plainLoginModule(
                    JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD, true, Map.of(
                        JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD,
                        JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
                JaasUtils.JaasSection section = new JaasUtils.JaasSection(JaasUtils.KAFKA_SERVER_CONTEXT_NAME, List.of(users));
                JaasUtils.refreshJavaLoginConfigParam(JaasUtils.writeJaasContextsToFile(Set.of(section)));
            }
            return new KafkaClusterTestKit(layout, new Nodes(layout, settings, features, standalone));
        }
    }

    public void format() throws Exception {
        nodes.format();
    }

    public void startup() throws InterruptedException {
        try {
            nodes.start();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    public void waitForReadyBrokers() throws InterruptedException {
        nodes.awaitBrokers();
    }

    public Admin admin() {
        return admin(Map.of());
    }

    public Admin admin(Map<String, Object> settings) {
        return admin(settings, false);
    }

    public Admin admin(Map<String, Object> settings, boolean ofControllers) {
        Map<String, Object> own = new HashMap<>(settings);
        if (ofControllers) {
            own.putIfAbsent("bootstrap.controllers", bootstrapControllers());
        } else {
            own.putIfAbsent("bootstrap.servers", bootstrapServers());
        }
        return Admin.create(own);
    }

    public String bootstrapServers() {
        return nodes.bootstrapServers();
    }

    public String bootstrapControllers() {
        return nodes.bootstrapControllers();
    }

    public Map<Integer, ControllerServer> controllers() {
        return stubs.controllers();
    }

    public Controller waitForActiveController() {
        throw Marks.insides("Controller");
    }

    public Map<Integer, BrokerServer> brokers() {
        return stubs.brokers();
    }

    public Map<Integer, ?> raftManagers() {
        throw Marks.insides("KafkaRaftManager");
    }

    public TestKitNodes nodes() {
        return layout;
    }

    public Nodes processes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return fatal;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return nonFatal;
    }

    @Override
    public void close() throws Exception {
        nodes.close();
    }
}
