package kwire.tests;

import java.io.File;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.stream.Collectors;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Stubs of Kafka's server classes for tests: they answer what is visible from outside, and mark all other calls. */
public final class Stubs {
    private final Nodes nodes;
    private final Logins logins;
    private final boolean startsTogether;
    private final Set<Node> started = new HashSet<>();
    /** True if a test has read the end of the metadata log, and has not waited for brokers since. */
    private volatile boolean hasEnd;
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private final Map<Integer, ControllerServer> controllers = new TreeMap<>();

    public Stubs(Nodes nodes) {
        this(nodes, false);
    }

    Stubs(Nodes nodes, boolean startsTogether) {
        this.nodes = nodes;
        this.logins = new Logins(nodes);
        this.startsTogether = startsTogether;
    }

    public synchronized Map<Integer, BrokerServer> brokers() {
        if (brokers.isEmpty()) {
            nodes.brokers().forEach(node -> brokers.put(node.id, broker(node, config(node))));
        }
        return brokers;
    }

    public synchronized Map<Integer, ControllerServer> controllers() {
        if (controllers.isEmpty()) {
            nodes.controllers().forEach(node -> controllers.put(node.id, controller(node, config(node))));
        }
        return controllers;
    }

    BrokerServer broker(Node node, KafkaConfig config) {
        SocketServer sockets = sockets(node);
        LogManager logs = logs(node);
        ReplicaManager replicas = replicas(node);
        AtomicReference<KRaftMetadataCache> cache = new AtomicReference<>();
        return stub(BrokerServer.class, call -> switch (call.getMethod().getName()) {
            case "config" -> config;
            case "clusterId" -> nodes.clusterId();
            case "brokerState" -> settled(node).state();
            case "isShutdown" -> node.isStopped();
            case "boundPort" -> settled(node).port(((ListenerName) call.getArgument(0)).value());
            case "socketServer" -> sockets;
            case "metadataCache" -> cache.updateAndGet(known -> known == null ? cache(node) : known);
            case "dataPlaneRequestProcessor" -> requests(node);
            case "logManager" -> logs;
            case "replicaManager" -> replicas;
            case "sharedServer" -> shared();
            case "lifecycleManager" -> lifecycle(node);
            case "groupCoordinator" -> groups(config);
            case "authorizerPlugin" -> authorizer(node);
            case "tokenCache" -> logins.tokens(settled(node));
            case "credentialProvider" -> logins.users(settled(node));
            case "metrics" -> Logins.sessions(settled(node));
            case "startup" -> started.add(node) && startsTogether ? launch(node) : Stubs.this.start(node);
            case "shutdown" -> Stubs.this.stop(node);
            case "awaitShutdown" -> null;
            default -> throw Marks.insides("BrokerServer." + call.getMethod().getName());
        });
    }

    private Option<Plugin<Authorizer>> authorizer(Node node) {
        Object name = node.properties.get("authorizer.class.name");
        if (name == null || name.toString().isEmpty()) {
            return Option.empty();
        }
        return Option.apply(Plugin.wrapInstance(new RemoteAuthorizer(nodes, node), null, "authorizer.class.name"));
    }

    ControllerServer controller(Node node, KafkaConfig config) {
        SocketServer sockets = sockets(node);
        return stub(ControllerServer.class, call -> switch (call.getMethod().getName()) {
            case "config" -> config;
            case "clusterId" -> nodes.clusterId();
            case "socketServer" -> sockets;
            case "authorizerPlugin" -> authorizer(node);
            case "raftManager" -> raft();
            case "controller" -> active();
            case "startup" -> Stubs.this.start(node);
            case "shutdown" -> Stubs.this.stop(node);
            case "awaitShutdown" -> null;
            default -> throw Marks.insides("ControllerServer." + call.getMethod().getName());
        });
    }

    /** Raft stub of a controller. The end of its log is 0, so that brokers with all committed records are current. */
    private KafkaRaftManager<?> raft() {
        RaftLog log = stub(RaftLog.class, call -> {
            if (call.getMethod().getName().equals("endOffset")) {
                hasEnd = true;
                return new LogOffsetMetadata(0);
            }
            throw Marks.insides("RaftLog." + call.getMethod().getName());
        });
        return stub(KafkaRaftManager.class, call -> {
            if (call.getMethod().getName().equals("raftLog")) {
                return log;
            }
            throw Marks.insides("KafkaRaftManager." + call.getMethod().getName());
        });
    }

    /** Shared server stub of a broker: returns the last applied offset after all brokers have all committed records. */
    private SharedServer shared() {
        MetadataLoader loader = stub(MetadataLoader.class, call -> {
            if (call.getMethod().getName().equals("lastAppliedOffset")) {
                if (hasEnd) {
                    Watching.metadataIsCaughtUp(nodes);
                    hasEnd = false;
                }
                return Long.MAX_VALUE;
            }
            throw Marks.insides("MetadataLoader." + call.getMethod().getName());
        });
        return stub(SharedServer.class, call -> {
            if (call.getMethod().getName().equals("loader")) {
                return loader;
            }
            throw Marks.insides("SharedServer." + call.getMethod().getName());
        });
    }

    private Controller active() {
        return stub(Controller.class, call -> switch (call.getMethod().getName()) {
            case "isActive" -> true;  // whatever is asked here goes to the active one
            case "findAllTopicIds" -> CompletableFuture.completedFuture(topicIds());
            case "findTopicIds" -> {
                Map<String, Uuid> known = topicIds();
                Map<String, ResultOrError<Uuid>> found = new TreeMap<>();
                java.util.Collection<String> names = call.getArgument(1);
                names.forEach(name -> found.put(name, known.containsKey(name) ? new ResultOrError<>(known.get(name))
                    : new ResultOrError<>(new ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION))));
                yield CompletableFuture.completedFuture(found);
            }
            default -> throw Marks.insides("Controller." + call.getMethod().getName());
        });
    }

    private Map<String, Uuid> topicIds() {
        return metadata(nodes.running().iterator().next(), null).topics().stream()
            .collect(Collectors.toMap(MetadataResponseTopic::name, MetadataResponseTopic::topicId));
    }

    private KafkaApis requests(Node node) {
        return stub(KafkaApis.class, call -> switch (call.getMethod().getName()) {
            case "metadataCache" -> cache(settled(node));
            case "authorizerPlugin" -> authorizer(settled(node));
            default -> throw Marks.insides("KafkaApis." + call.getMethod().getName());
        });
    }

    private BrokerLifecycleManager lifecycle(Node node) {
        return stub(BrokerLifecycleManager.class, call -> switch (call.getMethod().getName()) {
            case "initialUnfenceFuture" -> {
                nodes.settle();
                yield CompletableFuture.completedFuture(null);
            }
            case "state" -> settled(node).state();
            default -> throw Marks.insides("BrokerLifecycleManager." + call.getMethod().getName());
        });
    }

    private static GroupCoordinator groups(KafkaConfig config) {
        return stub(GroupCoordinator.class, call -> {
            if (!call.getMethod().getName().equals("groupMetadataTopicConfigs")) {
                throw Marks.insides("GroupCoordinator." + call.getMethod().getName());
            }
            java.util.Properties own = new java.util.Properties();
            own.put("cleanup.policy", "compact");
            own.put("compression.type", "producer");
            own.put("segment.bytes", String.valueOf(config.groupCoordinatorConfig().offsetsTopicSegmentBytes()));
            return own;
        });
    }

    private static KafkaConfig config(Node node) {
        return new KafkaConfig(node.properties, false);
    }

    private SocketServer sockets(Node node) {
        return stub(SocketServer.class, call -> {
            if (call.getMethod().getName().equals("boundPort")) {
                return settled(node).port(((ListenerName) call.getArgument(0)).value());
            }
            throw Marks.insides("SocketServer." + call.getMethod().getName());
        });
    }

    private LogManager logs(Node node) {
        return stub(LogManager.class, call -> switch (call.getMethod().getName()) {
            case "getLog" -> logOf(node, call.getArgument(0));
            case "getLog$default$2" -> false;
            default -> throw Marks.insides("LogManager." + call.getMethod().getName());
        });
    }

    private Option<UnifiedLog> logOf(Node node, TopicPartition partition) {
        return node.directoryOf(partition).map(found -> Option.apply(log(node, found, partition))).orElse(Option.empty());
    }

    /** Log of a partition, read from disk. */
    private UnifiedLog log(Node node, File directory, TopicPartition partition) {
        return stub(UnifiedLog.class, call -> switch (call.getMethod().getName()) {
            case "dir" -> directory;
            case "parentDir" -> directory.getParent();
            case "topicPartition" -> partition;
            case "name" -> directory.getName();
            case "logEndOffset" -> Segments.endOffset(directory);
            case "logStartOffset" -> Ask.fetch(nodes.nodePort(node), partition, Segments.endOffset(directory)).logStartOffset();
            case "highWatermark" -> Ask.fetch(nodes.nodePort(node), partition, Segments.endOffset(directory)).highWatermark();
            case "size" -> Segments.size(directory);
            case "numberOfSegments" -> Segments.of(directory).size();
            case "config" -> new LogConfig(Ask.topicConfig(nodes.nodePort(node), partition.topic()));
            default -> throw Marks.insides("UnifiedLog." + call.getMethod().getName());
        });
    }

    private ReplicaManager replicas(Node node) {
        return stub(ReplicaManager.class, call -> {
            switch (call.getMethod().getName()) {
                case "onlinePartition":
                    break;
                case "localLog", "getLog":
                    return logOf(node, call.getArgument(0));
                case "localLogOrException":
                    return logOf(node, call.getArgument(0)).get();
                default:
                    throw Marks.insides("ReplicaManager." + call.getMethod().getName());
            }
            TopicPartition partition = call.getArgument(0);
            return partition(node, partition.topic(), partition.partition())
                .filter(found -> found.replicaNodes().contains(node.id) && !found.offlineReplicas().contains(node.id))
                .map(found -> Option.apply(partition(node, partition))).orElse(Option.empty());
        });
    }

    private Partition partition(Node node, TopicPartition partition) {
        return stub(Partition.class, call -> {
            boolean leads = partition(node, partition.topic(), partition.partition())
                .filter(found -> found.leaderId() == node.id).isPresent();
            return switch (call.getMethod().getName()) {
                case "leaderIdIfLocal" -> leads ? Option.apply((Object) node.id) : Option.empty();
                case "leaderLogIfLocal" ->
                    leads ? logOf(node, partition) : Option.empty();
                case "isLeader" -> leads;
                case "inSyncReplicaIds" -> CollectionConverters.asScala(new java.util.TreeSet<Object>(
                    partition(node, partition.topic(), partition.partition()).orElseThrow().isrNodes())).toSet();
                default -> throw Marks.insides("Partition." + call.getMethod().getName());
            };
        });
    }

    private KRaftMetadataCache cache(Node node) {
        return stub(KRaftMetadataCache.class, call -> switch (call.getMethod().getName()) {
            case "contains" -> call.getArgument(0) instanceof TopicPartition partition
                ? partition(node, partition.topic(), partition.partition()).isPresent()
                : topic(node, call.getArgument(0)).isPresent();
            case "numPartitions" -> topic(node, call.getArgument(0)).map(found -> found.partitions().size());
            case "getTopicId" -> topic(node, call.getArgument(0)).map(MetadataResponseTopic::topicId)
                .orElse(org.apache.kafka.common.Uuid.ZERO_UUID);
            case "getAllTopics" -> metadata(node, null).topics().stream()
                .map(MetadataResponseTopic::name).collect(Collectors.toSet());
            case "hasAliveBroker" -> metadata(node, null).brokers().stream()
                .anyMatch(each -> each.nodeId() == (Integer) call.getArgument(0));
            case "getAliveBrokerNodes" -> metadata(node, null).brokers().stream()
                .map(each -> new org.apache.kafka.common.Node(each.nodeId(), each.host(), each.port(), each.rack()))
                .toList();
            case "getAliveBrokerNode" -> broker(node, (Integer) call.getArgument(0));
            case "getPartitionLeaderEndpoint" -> partition(node, call.getArgument(0), call.getArgument(1))
                .flatMap(found -> broker(node, found.leaderId()));
            case "topicConfig" -> {
                java.util.Properties own = new java.util.Properties();
                own.putAll(Ask.ownTopicConfig(nodes.nodePort(node), call.getArgument(0)));
                yield own;
            }
            case "getLeaderAndIsr" -> partition(node, call.getArgument(0), call.getArgument(1)).map(Stubs::leaderAndIsr);
            default -> throw Marks.insides("MetadataCache." + call.getMethod().getName());
        });
    }

    /** Metadata of a broker; for a stopped broker, the metadata of another one. */
    private MetadataResponseData metadata(Node node, String topic) {
        Node asked = node.isStopped() ? nodes.running().iterator().next() : node;
        return Ask.metadata(nodes.nodePort(asked), topic);
    }

    private Optional<org.apache.kafka.common.Node> broker(Node node, int id) {
        return metadata(node, null).brokers().stream().filter(each -> each.nodeId() == id)
            .map(each -> new org.apache.kafka.common.Node(each.nodeId(), each.host(), each.port(), each.rack())).findFirst();
    }

    private Optional<MetadataResponseTopic> topic(Node node, String name) {
        return metadata(node, name).topics().stream().filter(each -> each.errorCode() == 0).findFirst();
    }

    private Optional<MetadataResponsePartition> partition(Node node, String topic, int index) {
        return topic(node, topic).flatMap(
            found -> found.partitions().stream().filter(each -> each.partitionIndex() == index).findFirst());
    }

    private static LeaderAndIsr leaderAndIsr(MetadataResponsePartition partition) {
        return new LeaderAndIsr(partition.leaderId(), partition.leaderEpoch(), partition.isrNodes(),
            LeaderRecoveryState.RECOVERED, -1);
    }

    /** Start a node together with others: the first request to any broker waits until all of them serve. */
    private static Object launch(Node node) throws Exception {
        node.launch();
        return null;
    }

    private Node settled(Node node) throws Exception {
        nodes.settle();
        return node;
    }

    private Object start(Node node) throws Exception {
        node.launch();
        node.awaitReady();
        return null;
    }

    private Object stop(Node node) throws Exception {
        if (node.isController) {
            Marks.INSIDES.add("a combined node whose broker alone is stopped");
        }
        nodes.stop(node);
        return null;
    }

    private interface Answers {
        Object answer(InvocationOnMock call) throws Exception;
    }

    private static <T> T stub(Class<T> type, Answers answers) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            if (call.getMethod().getDeclaringClass() == Object.class) {
                return call.callRealMethod();
            }
            return answers.answer(call);
        }));
    }
}
