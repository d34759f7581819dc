package kwire.tests;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.TestKitNode;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;

/** Nodes of one cluster, with the layout of Kafka's TestKitNodes: formatted, started and stopped as processes. */
public final class Nodes {
    private static final long READY_SECONDS = 30;
    /** The newest supported metadata.version; if a test requests an unstable one, the cluster begins with this one. */
    private static final short NEWEST_METADATA_VERSION = Short.parseShort(System.getProperty("kwire.metadata.version"));
    /** Settings of Kafka's test kit for a cluster with SASL. */
    private static final Map<String, String> SASL_DEFAULTS = Map.of(
        "sasl.enabled.mechanisms", "PLAIN",
        "sasl.mechanism.inter.broker.protocol", "PLAIN",
        "sasl.mechanism.controller.protocol", "PLAIN",
        "authorizer.class.name", StandardAuthorizer.class.getName(),
        "super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
    public final SortedMap<Integer, Node> all = new TreeMap<>();
    private final TestKitNodes layout;
    private final Map<String, Short> features;
    private final boolean standalone;
    private final String clusterId;
    private final File directory;
    private final String controllerListener;
    private String clientListener;
    private boolean closed;

    public Nodes(TestKitNodes layout, Map<String, Object> settings, Map<String, Short> features, boolean standalone) {
        this.layout = layout;
        this.features = features;
        this.standalone = standalone;
        this.clusterId = layout.clusterId();
        this.directory = new File(layout.baseDirectory());
        this.clientListener = layout.brokerListenerName().value();
        this.controllerListener = layout.controllerListenerName().value();
        TreeSet<Integer> ids = new TreeSet<>(layout.controllerNodes().keySet());
        ids.addAll(layout.brokerNodes().keySet());
        Map<Integer, Integer> controllerPorts = new HashMap<>();
        layout.controllerNodes().keySet().forEach(id -> controllerPorts.put(id, Ports.free()));
        String voters = layout.controllerNodes().keySet().stream()
            .map(id -> (standalone ? "" : id + "@") + "localhost:" + controllerPorts.get(id))
            .collect(Collectors.joining(","));
        for (int id : ids) {
            all.put(id, node(id, settings, controllerPorts.get(id), voters));
        }
    }

    /** Create a cluster without nodes; {@link #add} adds each node before its directories are formatted. */
    public Nodes(String clusterId, File directory, String controllerListener) {
        this.layout = null;
        this.features = Map.of();
        this.standalone = false;
        this.clusterId = clusterId;
        this.directory = directory;
        this.controllerListener = controllerListener;
    }

    void add(Node node) {
        all.put(node.id, node);
    }

    void setClientListener(String name) {
        clientListener = name;
    }

    /** Wait until every started node serves. */
    void settle() throws IOException, InterruptedException {
        for (Node node : all.values()) {
            if (node.state() == BrokerState.STARTING) {
                node.awaitReady();
            }
        }
    }

    private Node node(int id, Map<String, Object> settings, Integer controllerPort, String voters) {
        TestKitNode broker = layout.brokerNodes().get(id);
        TestKitNode controller = layout.controllerNodes().get(id);
        String clients = clientListener;
        String quorum = controllerListener;
        Map<String, Integer> ports = new HashMap<>();
        List<String> listeners = new ArrayList<>();
        List<String> roles = new ArrayList<>();
        if (broker != null) {
            roles.add("broker");
            ports.put(clients, Ports.free());
            listeners.add(clients + "://localhost:" + ports.get(clients));
        }
        if (controller != null) {
            roles.add("controller");
            ports.put(quorum, controllerPort);
            listeners.add(quorum + "://localhost:" + controllerPort);
        }
        Map<String, Object> own = new TreeMap<>(settings);
        TestKitNode metadata = controller == null ? broker : controller;
        own.put("process.roles", String.join(",", roles));
        own.put("node.id", id);
        own.put("metadata.log.dir", metadata.metadataDirectory());
        own.put("log.dirs", broker == null ? controller.metadataDirectory() : String.join(",", broker.logDataDirectories()));
        own.putIfAbsent("listeners", String.join(",", listeners));
        own.putIfAbsent("listener.security.protocol.map", clients + ":" + layout.brokerListenerProtocol().name + ","
            + quorum + ":" + layout.controllerListenerProtocol().name);
        own.putIfAbsent("inter.broker.listener.name", clients);
        own.putIfAbsent("controller.listener.names", quorum);
        boolean isBrokerSecured = broker != null && layout.brokerListenerProtocol() == SecurityProtocol.SASL_PLAINTEXT;
        if (isBrokerSecured || controller != null && layout.controllerListenerProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            SASL_DEFAULTS.forEach(own::putIfAbsent);
        }
        own.put(standalone ? "controller.quorum.bootstrap.servers" : "controller.quorum.voters", voters);
        own.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152");
        if (broker != null) {
            own.remove("controller.quorum.auto.join.enable");
            own.putAll(broker.propertyOverrides());
        }
        if (controller != null) {
            own.putAll(controller.propertyOverrides());
        }
        own.putIfAbsent("unstable.feature.versions.enable", "true");
        own.putIfAbsent("unstable.api.versions.enable", "false");
        return new Node(id, broker != null, controller != null, own, ports, directory.toPath());
    }

    public Collection<Node> brokers() {
        return all.values().stream().filter(node -> node.isBroker).toList();
    }

    public Collection<Node> controllers() {
        return all.values().stream().filter(node -> node.isController).toList();
    }

    public Collection<Node> running() {
        return brokers().stream().filter(node -> !node.isStopped()).toList();
    }

    public Node get(int id) {
        Node node = all.get(id);
        if (node == null || !node.isBroker) {
            throw new IllegalArgumentException("no broker " + id);
        }
        return node;
    }

    public String bootstrapServers() {
        return brokers().stream().map(node -> "localhost:" + node.port(clientListener)).collect(Collectors.joining(","));
    }

    public String bootstrapControllers() {
        return controllers().stream().map(node -> "localhost:" + node.port(controllerListener)).collect(Collectors.joining(","));
    }

    /** Wait until all running brokers have exactly these entries. */
    public void awaitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        RemoteAuthorizer.await(this, filter, entries);
    }

    /** The port for this harness: its own listener, or that by which nodes connect, whose clients may be super users. */
    int nodePort(Node node) {
        if (node.has(Security.OWN_LISTENER)) {
            return node.port(Security.OWN_LISTENER);
        }
        Object listener = node.properties.get("inter.broker.listener.name");
        return listener == null ? clientPort(node) : node.port(listener.toString());
    }

    public int clientPort(Node node) {
        return node.port(clientListener);
    }

    public String clusterId() {
        return clusterId;
    }

    /** Format all directories with {@code kwire format}, in one process for all nodes. */
    public void format() throws IOException, InterruptedException {
        directory.mkdirs();
        List<String> command = new ArrayList<>(List.of(
            System.getProperty("kwire.python"), "-m", "compat_tests.kafka_tests.formatting", clusterId));
        features.forEach((name, level) -> command.add("--feature=" + name + "=" + level));
        short version = layout.bootstrapMetadata().metadataVersion().featureLevel();
        command.add("--feature=metadata.version=" + (version > NEWEST_METADATA_VERSION ? NEWEST_METADATA_VERSION : version));
        boolean first = true;
        for (Node node : all.values()) {
            node.write();
            String voters = !standalone ? "" : node.isController && first ? "standalone:" : node.isController ? "joins:" : "";
            first = first && !node.isController;
            command.add(voters + node.file());
        }
        File output = new File(directory, "format.txt");
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output);
        int status = builder.start().waitFor();
        if (status != 0) {
            throw new IllegalStateException("kwire format: " + java.nio.file.Files.readString(output.toPath()));
        }
    }

    public void start() throws IOException, InterruptedException {
        for (Node node : all.values()) {
            node.launch();
        }
        for (Node node : all.values()) {
            node.awaitReady();
        }
        awaitBrokers();
    }

    /** Wait until each running broker's metadata lists all running brokers. */
    public void awaitBrokers() throws InterruptedException {
        TreeSet<Integer> wanted = new TreeSet<>(running().stream().map(node -> node.id).toList());
        for (Node node : running()) {
            await(READY_SECONDS, "broker " + node.id + " knows " + wanted,
                () -> ids(Ask.metadata(nodePort(node), null)).equals(wanted));
        }
    }

    private static TreeSet<Integer> ids(MetadataResponseData metadata) {
        return new TreeSet<>(metadata.brokers().stream().map(each -> each.nodeId()).toList());
    }

    /** Stop one broker cleanly, as an operator does. */
    public void stop(Node node) throws IOException, InterruptedException {
        node.tell();
        String problem = node.awaitEnd();
        if (problem != null) {
            throw new AssertionError(problem);
        }
    }

    /** Stop all running nodes, brokers first; return the nodes that ended abnormally. */
    public void close() throws IOException, InterruptedException {
        if (closed) {
            return;
        }
        closed = true;
        List<String> problems = new ArrayList<>();
        for (Node node : all.values()) {
            if (node.endedByItself()) {
                problems.add("node " + node.id + " ended by itself: " + node.text());
            }
        }
        stopAll(all.values().stream().filter(node -> !node.isController).toList(), problems);
        stopAll(controllers(), problems);
        for (Node node : all.values()) {
            Marks.OUTPUT.add("node " + node.id + ":\n" + node.text());
        }
        Utils.delete(directory);
        if (!problems.isEmpty()) {
            throw new AssertionError(String.join("\n", problems));
        }
    }

    private static void stopAll(Collection<Node> nodes, List<String> problems) throws IOException, InterruptedException {
        nodes.forEach(Node::tell);
        for (Node node : nodes) {
            String problem = node.awaitEnd();
            if (problem != null) {
                problems.add(problem);
            }
        }
    }

    /** Wait for a condition; an exception in it counts as false. */
    public static void await(long seconds, String what, java.util.concurrent.Callable<Boolean> condition) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        Exception last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (Exception error) {
                last = error;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not within " + seconds + " s: " + what, last);
    }
}
