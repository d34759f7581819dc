package kwire.tests;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.DescribeConfigsRequest;
import org.apache.kafka.common.requests.DescribeConfigsResponse;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.common.requests.DescribeQuorumResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/** Sends one request to one node, each on its own connection. */
final class Ask {
    private static final int TIMEOUT_MS = 5000;

    private Ask() {
    }

    /** Return the node's metadata of a topic, or of all topics for null. */
    static MetadataResponseData metadata(int port, String topic) {
        List<String> topics = topic == null ? null : List.of(topic);
        MetadataRequest.Builder builder =
            topics == null ? MetadataRequest.Builder.allTopics() : new MetadataRequest.Builder(topics, false);
        return ((MetadataResponse) answer(port, builder.build((short) 12))).data();
    }

    /** Return a replica's Fetch response at an offset, which has the offsets of its log, without records. */
    static FetchResponseData.PartitionData fetch(int port, TopicPartition partition, long offset) {
        FetchRequestData asked = new FetchRequestData().setReplicaId(-1).setMaxWaitMs(0).setMinBytes(0).setTopics(List.of(
            new FetchRequestData.FetchTopic().setTopic(partition.topic()).setPartitions(List.of(
                new FetchRequestData.FetchPartition().setPartition(partition.partition()).setFetchOffset(offset)
                    .setPartitionMaxBytes(1)))));
        var answer = (FetchResponse) answer(port, new FetchRequest(asked, (short) 12));
        return answer.data().responses().get(0).partitions().get(0);
    }

    /** Return the topic's configuration, as the node describes it. */
    static Map<String, String> topicConfig(int port, String topic) {
        return topicConfig(port, topic, false);
    }

    /** Return the configurations that are set on the topic itself. */
    static Map<String, String> ownTopicConfig(int port, String topic) {
        return topicConfig(port, topic, true);
    }

    private static Map<String, String> topicConfig(int port, String topic, boolean own) {
        DescribeConfigsRequestData asked = new DescribeConfigsRequestData().setResources(List.of(
            new DescribeConfigsRequestData.DescribeConfigsResource()
                .setResourceType(ConfigResource.Type.TOPIC.id()).setResourceName(topic).setConfigurationKeys(null)));
        var answer = (DescribeConfigsResponse) answer(port, new DescribeConfigsRequest.Builder(asked).build((short) 4));
        Map<String, String> found = new TreeMap<>();
        answer.data().results().get(0).configs().stream()
            .filter(each -> !own || each.configSource() == DescribeConfigsResponse.ConfigSource.TOPIC_CONFIG.id())
            .forEach(each -> found.put(each.name(), each.value()));
        return found;
    }

    static DescribeQuorumResponseData quorum(int port) {
        TopicPartition log = new TopicPartition("__cluster_metadata", 0);
        var builder = new DescribeQuorumRequest.Builder(DescribeQuorumRequest.singletonRequest(log));
        return ((DescribeQuorumResponse) answer(port, builder.build((short) 1))).data();
    }

    private static AbstractResponse answer(int port, AbstractRequest request) {
        ApiKeys api = request.apiKey();
        RequestHeader header = new RequestHeader(api, request.version(), "kwire-tests", 1);
        try (Socket socket = new Socket("localhost", port)) {
            socket.setSoTimeout(TIMEOUT_MS);
            ByteBuffer frame = RequestUtils.serialize(
                header.data(), header.headerVersion(), request.data(), request.version());
            ByteBuffer size = ByteBuffer.allocate(4).putInt(0, frame.remaining());
            socket.getOutputStream().write(size.array());
            socket.getOutputStream().write(frame.array(), frame.arrayOffset() + frame.position(), frame.remaining());
            DataInputStream input = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[input.readInt()];
            input.readFully(answer);
            return AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
