package org.apache.kafka.common.test.junit;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kwire.tests.Marks;
import kwire.tests.Nodes;
import kwire.tests.Watching;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;

/** ClusterInstance of kwire processes; default methods that inspect brokers get their answers from outside. */
final class ProcessCluster implements ClusterInstance {
    private final ClusterConfig config;
    private final boolean combined;
    private KafkaClusterTestKit kit;
    private boolean started;
    private boolean stopped;

    ProcessCluster(ClusterConfig config, boolean combined) {
        this.config = config;
        this.combined = combined;
    }

    void format() throws Exception {
        if (kit != null) {
            return;
        }
        TestKitNodes layout = new TestKitNodes.Builder()
            .setBootstrapMetadata(BootstrapMetadata.fromVersion(config.metadataVersion(), "tests"))
            .setCombined(combined)
            .setNumBrokerNodes(config.numBrokers())
            .setNumDisksPerBroker(config.numDisksPerBroker())
            .setPerServerProperties(config.perServerOverrideProperties())
            .setNumControllerNodes(config.numControllers())
            .setBrokerListenerName(config.brokerListenerName())
            .setBrokerSecurityProtocol(config.brokerSecurityProtocol())
            .setControllerListenerName(config.controllerListenerName())
            .setControllerSecurityProtocol(config.controllerSecurityProtocol())
            .build();
        KafkaClusterTestKit.Builder builder = new KafkaClusterTestKit.Builder(layout);
        config.serverProperties().forEach(builder::setConfigProp);
        Map<String, Short> features = new HashMap<>();
        config.features().forEach((feature, level) -> features.put(feature.featureName(), level));
        kit = builder.setStandalone(config.standalone()).setFeatures(features).build();
        kit.format();
    }

    private Nodes nodes() {
        return kit.processes();
    }

    @Override
    public void start() {
        try {
            format();
            if (!started) {
                started = true;
                kit.startup();
            }
        } catch (Exception error) {
            throw new RuntimeException("the cluster does not start", error);
        }
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public void stop() {
        stopped = true;
        try {
            if (kit != null) {
                kit.close();
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        brokers().get(nodes().get(id).id).shutdown();
    }

    @Override
    public void startBroker(int id) {
        brokers().get(nodes().get(id).id).startup();
    }

    @Override
    public Type type() {
        return combined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return new HashMap<>(kit.brokers());
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return kit.controllers();
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Set<Integer> controllerIds() {
        return new TreeSet<>(nodes().controllers().stream().map(node -> node.id).toList());
    }

    @Override
    public Set<Integer> brokerIds() {
        return new TreeSet<>(nodes().brokers().stream().map(node -> node.id).toList());
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return kit.bootstrapServers();
    }

    @Override
    public String bootstrapControllers() {
        return kit.bootstrapControllers();
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return nodes().controllers().stream().map(node -> node.port(controllerListenerName().value())).toList();
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return nodes().brokers().stream().map(node -> node.port(clientListener().value())).toList();
    }

    @Override
    public String clusterId() {
        return nodes().clusterId();
    }

    /** Return CONSUMER if the finalized group.version is 1 or more, which it reads as a client does. */
    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        try (Admin admin = admin()) {
            var level = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("group.version");
            return level != null && level.maxVersionLevel() > 0
                ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
                : Set.of(GroupProtocol.CLASSIC);
        } catch (InterruptedException | java.util.concurrent.ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        kit.waitForReadyBrokers();
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) {
            throw new IllegalArgumentException("partitions must be > 0, not " + partitions);
        }
        Watching.topicIsThere(nodes(), topic, partitions);
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        Watching.topicIsGone(nodes(), topic);
    }

    @Override
    public void ensureConsistentMetadata() throws InterruptedException {
        Watching.metadataIsCaughtUp(nodes());
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers)
            throws InterruptedException {
        Watching.metadataIsCaughtUp(nodes());
    }

    @Override
    public List<Authorizer> authorizers() {
        throw Marks.insides("Authorizer");
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        nodes().awaitAcls(filter, entries);
    }
}
