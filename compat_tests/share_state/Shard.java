import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestDataJsonConverter;
import org.apache.kafka.common.message.DeleteShareGroupStateResponseData;
import org.apache.kafka.common.message.DeleteShareGroupStateResponseDataJsonConverter;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestDataJsonConverter;
import org.apache.kafka.common.message.InitializeShareGroupStateResponseData;
import org.apache.kafka.common.message.InitializeShareGroupStateResponseDataJsonConverter;
import org.apache.kafka.common.message.ReadShareGroupStateRequestDataJsonConverter;
import org.apache.kafka.common.message.ReadShareGroupStateResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateResponseDataJsonConverter;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestDataJsonConverter;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryResponseDataJsonConverter;
import org.apache.kafka.common.message.WriteShareGroupStateRequestDataJsonConverter;
import org.apache.kafka.common.message.WriteShareGroupStateResponseData;
import org.apache.kafka.common.message.WriteShareGroupStateResponseDataJsonConverter;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * A shard of Apache Kafka's share coordinator. It reads one operation as JSON from each line, and prints its response
 * and its records. The first line has the settings, the topics with their partitions, and the time.
 */
public class Shard {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final short V0 = 0, V1 = 1;
    private static long nowMs;
    private static long offset;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ShareCoordinatorShard shard = shard(JSON.readTree(lines.readLine()));
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            nowMs += asked.path("after_ms").asLong();
            CoordinatorResult<?, CoordinatorRecord> result = apply(shard, asked.get("op").asText(), asked.get("request"));
            ObjectNode answer = JSON.createObjectNode();
            answer.set("response", response(result.response()));
            ArrayNode records = answer.putArray("records");
            for (CoordinatorRecord record : result.records()) {
                byte[] value = serde.serializeValue(record);
                ArrayNode stored = records.addArray();
                stored.add(Base64.getEncoder().encodeToString(serde.serializeKey(record)));
                stored.add(value == null ? null : Base64.getEncoder().encodeToString(value));
                shard.replay(offset++, -1L, (short) -1, record);
            }
            Optional<Long> needed = shard.lastRedundantOffset().response();
            answer.put("needed", needed.orElse(-1L));
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static ShareCoordinatorShard shard(JsonNode world) {
        nowMs = world.get("now_ms").asLong();
        JsonNode topics = world.get("topics");
        CoordinatorMetadataImage image = proxy(CoordinatorMetadataImage.class, (each, method, given) -> {
            String id = given[0].toString();
            if (!topics.has(id))
                return Optional.empty();
            int count = topics.get(id).asInt();
            return Optional.of(proxy(CoordinatorMetadataImage.TopicMetadata.class, (topic, asked, none) -> count));
        });
        ShareCoordinatorConfig config = new ShareCoordinatorConfig(
            new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, JSON.convertValue(world.get("settings"), Map.class)));
        ShareCoordinatorShard shard = (ShareCoordinatorShard) new ShareCoordinatorShard.Builder(config)
            .withLogContext(new LogContext())
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .withTime(proxy(Time.class, (each, method, given) -> nowMs))
            .build();
        shard.onLoaded(image);
        return shard;
    }

    private static <T> T proxy(Class<T> kind, java.lang.reflect.InvocationHandler handler) {
        return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, handler));
    }

    private static CoordinatorResult<?, CoordinatorRecord> apply(ShareCoordinatorShard shard, String op, JsonNode asked) {
        switch (op) {
            case "initialize":
                return shard.initializeState(InitializeShareGroupStateRequestDataJsonConverter.read(asked, V0));
            case "read":
                return shard.readStateAndMaybeUpdateLeaderEpoch(ReadShareGroupStateRequestDataJsonConverter.read(asked, V0));
            case "write":
                return shard.writeState(WriteShareGroupStateRequestDataJsonConverter.read(asked, V1));
            case "delete":
                return shard.deleteState(DeleteShareGroupStateRequestDataJsonConverter.read(asked, V0));
            case "summary":
                return shard.readStateSummary(ReadShareGroupStateSummaryRequestDataJsonConverter.read(asked, V1));
            case "cold":
                return shard.snapshotColdPartitions();
            case "topic":
                return shard.maybeCleanupShareState(Set.of(Uuid.fromString(asked.get("topicId").asText())));
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static JsonNode response(Object response) {
        if (response instanceof InitializeShareGroupStateResponseData data)
            return InitializeShareGroupStateResponseDataJsonConverter.write(data, V0);
        if (response instanceof ReadShareGroupStateResponseData data)
            return ReadShareGroupStateResponseDataJsonConverter.write(data, V0);
        if (response instanceof WriteShareGroupStateResponseData data)
            return WriteShareGroupStateResponseDataJsonConverter.write(data, V1);
        if (response instanceof DeleteShareGroupStateResponseData data)
            return DeleteShareGroupStateResponseDataJsonConverter.write(data, V0);
        if (response instanceof ReadShareGroupStateSummaryResponseData data)
            return ReadShareGroupStateSummaryResponseDataJsonConverter.write(data, V1);
        return null;
    }
}
