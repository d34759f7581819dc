package kwire.tests;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.QuorumImplementation;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.metadata.properties.MetaPropertiesVersion;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.test.TestUtils;
import scala.Option;

/** Cluster of Kafka's harness in Scala: one isolated controller, and a broker for each KafkaConfig. */
public final class ProcessQuorum implements QuorumImplementation {
    private static final String CONTROLLER = "CONTROLLER";
    private final File directory = TestUtils.tempDirectory("nodes-");
    private final String clusterId;
    private final String voters;
    private final ControllerServer controller;
    private final Nodes nodes;
    private final Stubs stubs;

    public ProcessQuorum(Properties own, MetadataVersion version, boolean secondTransactions, SecurityProtocol protocol,
            Collection<SecurityProtocol> more, Consumer<Formatter> settings) throws Exception {
        Map<String, Object> properties = new TreeMap<>();
        own.forEach((key, value) -> properties.put(key.toString(), text(value)));
        int id = Integer.parseInt(properties.getOrDefault("node.id", "1000").toString());
        String names = Stream.concat(Stream.of(CONTROLLER), more.stream().map(each -> each.name))
            .collect(Collectors.joining(","));
        properties.put("node.id", id);
        properties.put("process.roles", "controller");
        properties.put("unstable.feature.versions.enable", "true");
        properties.put("metadata.log.dir", new File(directory, "controller").getPath());
        properties.put("log.dirs", properties.get("metadata.log.dir"));
        properties.put("listener.security.protocol.map", Stream.concat(Stream.of(CONTROLLER + ":" + protocol),
            more.stream().map(each -> each + ":" + each)).collect(Collectors.joining(",")));
        properties.put("listeners", Stream.of(names.split(",")).map(name -> name + "://localhost:0")
            .collect(Collectors.joining(",")));
        properties.put("controller.listener.names", names);
        properties.put("log.segment.delete.delay.ms", "1000");
        Map<String, Integer> ports = givePorts(properties);
        voters = id + "@localhost:" + ports.get(CONTROLLER);
        properties.put("controller.quorum.voters", voters);
        clusterId = format(id, properties.get("metadata.log.dir").toString(), version, secondTransactions, settings);
        Node controllerNode = new Node(id, false, true, properties, ports, directory.toPath());
        nodes = new Nodes(clusterId, directory, CONTROLLER);
        nodes.add(controllerNode);
        stubs = new Stubs(nodes, true);
        Logins.addExpiredSessions(nodes);
        controller = stubs.controller(controllerNode, new KafkaConfig(properties, false));
        controllerNode.write();
        try {
            controllerNode.launch();
            controllerNode.awaitReady();
        } catch (IllegalStateException error) {
            try {
                shutdown();
            } catch (AssertionError problem) {
                error.addSuppressed(problem);
            }
            throw error;
        }
    }

    /** Format the controller's directory; return the id of the cluster, which a test's own settings may change. */
    private String format(int id, String into, MetadataVersion version, boolean secondTransactions, Consumer<Formatter> settings)
            throws Exception {
        MetadataVersion newest = MetadataVersion.fromFeatureLevel(Short.parseShort(System.getProperty("kwire.metadata.version")));
        Formatter formatter = new Formatter()
            .setClusterId(Uuid.randomUuid().toString())
            .setNodeId(id)
            .addDirectory(into)
            .setReleaseVersion(version.compareTo(newest) > 0 ? newest : version)
            .setUnstableFeatureVersionsEnabled(true)
            .setControllerListenerName(CONTROLLER)
            .setMetadataLogDirectory(into)
            .setFeatureLevel("transaction.version", (short) (secondTransactions ? 2 : 1));
        settings.accept(formatter);
        formatter.run();
        return formatter.clusterId();
    }

    public ControllerServer controllerServer() {
        return controller;
    }

    @Override
    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        if (time != Time.SYSTEM) {
            throw Marks.insides("the clock of a broker");
        }
        Map<String, Object> properties = new TreeMap<>();
        config.originals().forEach((key, value) -> properties.put(key, text(value)));
        properties.put("controller.quorum.voters", voters);
        properties.putIfAbsent("log.dirs", String.join(",", config.logDirs()));
        Map<String, Integer> ports = givePorts(properties);
        try {
            identify(config);
            nodes.setClientListener(config.interBrokerListenerName().value());
            Node node = new Node(config.nodeId(), true, false, properties, ports, directory.toPath());
            nodes.add(node);
            node.write();
            KafkaBroker broker = stubs.broker(node, config);
            if (startup) {
                broker.startup();
                nodes.settle();
            }
            return broker;
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Write meta.properties into directories without it, as Kafka's harness does. */
    private void identify(KafkaConfig config) throws IOException {
        MetaPropertiesEnsemble found = new MetaPropertiesEnsemble.Loader()
            .addLogDirs(config.logDirs()).addMetadataLogDir(config.metadataLogDir()).load();
        MetaPropertiesEnsemble.Copier copier = new MetaPropertiesEnsemble.Copier(found);
        for (String empty : found.emptyLogDirs()) {
            new File(empty).mkdirs();
            copier.setLogDirProps(empty, new MetaProperties.Builder()
                .setVersion(MetaPropertiesVersion.V1)
                .setClusterId(clusterId)
                .setNodeId(config.nodeId())
                .setDirectoryId(copier.generateValidDirectoryId())
                .build());
        }
        copier.writeLogDirChanges();
    }

    /** Replace port 0 of each listener by a free port, also in the advertised listeners; return the ports by name. */
    private static Map<String, Integer> givePorts(Map<String, Object> properties) {
        Map<String, Integer> ports = new HashMap<>();
        for (String key : List.of("listeners", "advertised.listeners")) {
            Object listeners = properties.get(key);
            if (listeners == null || listeners.toString().isBlank()) {
                continue;
            }
            List<String> written = new ArrayList<>();
            for (String each : listeners.toString().split(",")) {
                String listener = each.trim();
                String name = listener.substring(0, listener.indexOf("://"));
                int colon = listener.lastIndexOf(':');
                int port = Integer.parseInt(listener.substring(colon + 1));
                int own = port == 0 ? ports.getOrDefault(name, Ports.free()) : port;
                if (key.equals("listeners")) {
                    ports.put(name, own);
                }
                written.add(listener.substring(0, colon + 1) + own);
            }
            properties.put(key, String.join(",", written));
        }
        return ports;
    }

    private static Object text(Object value) {
        if (value instanceof Password password) {
            return password.value();
        }
        if (value instanceof Class<?> type) {
            return type.getName();
        }
        if (value instanceof Collection<?> values) {
            return values.stream().map(each -> text(each).toString()).collect(Collectors.joining(","));
        }
        return String.valueOf(value);
    }

    @Override
    public void shutdown() {
        try {
            nodes.close();
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
