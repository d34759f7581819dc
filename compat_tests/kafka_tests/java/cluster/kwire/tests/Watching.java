package kwire.tests;

import java.io.File;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.protocol.Errors;

/** Conditions that Kafka's tests check inside brokers, checked here by requests and on disk. */
public final class Watching {
    private static final long SECONDS = 60;

    private Watching() {
    }

    /** All running brokers have the topic with this partition count, and leaders where not all replicas are down. */
    public static void topicIsThere(Nodes nodes, String topic, int partitions) throws InterruptedException {
        for (Node node : nodes.running()) {
            Nodes.await(SECONDS, "broker " + node.id + " has " + topic + " with " + partitions + " partitions", () -> {
                MetadataResponseTopic found = topic(nodes, node, topic);
                return found.errorCode() == 0 && found.partitions().size() == partitions
                    && found.partitions().stream().allMatch(Watching::hasLeaderOrNoReplica);
            });
        }
    }

    /** No running broker has the topic in its metadata or a directory of one of its partitions in service. */
    public static void topicIsGone(Nodes nodes, String topic) throws InterruptedException {
        for (Node node : nodes.running()) {
            Nodes.await(SECONDS, "broker " + node.id + " has no " + topic,
                () -> topic(nodes, node, topic).errorCode() == Errors.UNKNOWN_TOPIC_OR_PARTITION.code());
            Nodes.await(SECONDS, "broker " + node.id + " has no directory of " + topic, () -> !isOnDisk(node, topic));
        }
    }

    private static boolean hasLeaderOrNoReplica(MetadataResponsePartition partition) {
        return partition.errorCode() != Errors.LEADER_NOT_AVAILABLE.code()
            || partition.offlineReplicas().containsAll(partition.replicaNodes());
    }

    private static MetadataResponseTopic topic(Nodes nodes, Node node, String topic) {
        return Ask.metadata(nodes.nodePort(node), topic).topics().iterator().next();
    }

    private static boolean isOnDisk(Node node, String topic) {
        return Arrays.stream(node.properties.get("log.dirs").toString().split(","))
            .flatMap(directory -> Arrays.stream(Objects.requireNonNull(new File(directory).list())))
            .anyMatch(name -> name.matches(java.util.regex.Pattern.quote(topic) + "-\\d+"));
    }

    /** Each running broker has fetched all committed records of the metadata log, and has sent a later fetch. */
    public static void metadataIsCaughtUp(Nodes nodes) throws InterruptedException {
        int port = nodes.nodePort(nodes.running().iterator().next());
        var begun = Ask.quorum(port).topics().get(0).partitions().get(0);
        long committed = begun.highWatermark();
        Map<Integer, Long> fetched = new HashMap<>();
        Nodes.await(SECONDS, "brokers have metadata up to " + committed, () -> {
            var now = Ask.quorum(port).topics().get(0).partitions().get(0);
            for (Node node : nodes.running()) {
                DescribeQuorumResponseData.ReplicaState state = java.util.stream.Stream
                    .concat(now.currentVoters().stream(), now.observers().stream())
                    .filter(each -> each.replicaId() == node.id).findFirst().orElseThrow();
                if (state.logEndOffset() < committed) {
                    return false;
                }
                Long before = fetched.putIfAbsent(node.id, state.lastFetchTimestamp());
                if (node.id != now.leaderId() && (before == null || before == state.lastFetchTimestamp())) {
                    return false;
                }
            }
            return true;
        });
    }
}
