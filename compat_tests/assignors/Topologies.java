import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.helpers.NOPLogger;

/**
 * Configures topologies with Apache Kafka's own InternalTopicManager.
 *
 * Each line of the file that the argument names is "topics subtopology subtopology ...". Topics are "name:partitions",
 * with commas. A subtopology is "id=item/item": an item is a source topic, ">" a sink, "<" a repartition topic with its
 * number of partitions after "*", "!" a changelog, "+" a copartition group. For each line it prints the status, the
 * subtopologies with their tasks and internal topics, and the missing topics; or "failed" with the exception.
 */
public class Topologies {
    public static void main(String[] arguments) throws Exception {
        try (Stream<String> lines = Files.lines(Path.of(arguments[0]))) {
            lines.map(Topologies::configure).forEachOrdered(System.out::println);
        }
    }

    private static String configure(String line) {
        String[] fields = line.split(" ");
        Map<String, Integer> counts = new TreeMap<>();
        for (String topic : fields[0].split(",")) {
            counts.put(topic.split(":")[0], Integer.parseInt(topic.split(":")[1]));
        }
        StreamsGroupTopologyValue value = new StreamsGroupTopologyValue();
        for (int number = 1; number < fields.length; number++) {
            String[] parts = fields[number].split("=", 2);
            value.subtopologies().add(subtopology(parts[0], List.of(parts[1].split("/"))));
        }
        try {
            ConfiguredTopology configured = InternalTopicManager.configureTopics(
                NOPLogger.NOP_LOGGER, "g", "m", 0, StreamsTopology.fromRecord(value), image(counts), Time.SYSTEM);
            String status = configured.topicConfigurationException()
                .map(error -> error.status() + " " + error.getMessage()).orElse("ready");
            String subtopologies = configured.subtopologies().map(all -> all.entrySet().stream().map(each ->
                each.getKey() + ":" + each.getValue().numberOfTasks()
                    + ":" + shown(each.getValue().repartitionSourceTopics())
                    + ":" + shown(each.getValue().stateChangelogTopics())
            ).collect(Collectors.joining(" "))).orElse("none");
            String missing = new TreeMap<>(configured.internalTopicsToBeCreated()).values().stream()
                .map(topic -> topic.name() + "*" + topic.numPartitions()).collect(Collectors.joining(","));
            return status + "|" + subtopologies + "|" + missing;
        } catch (RuntimeException error) {
            return "failed: " + error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }

    private static String shown(Map<String, ConfiguredInternalTopic> topics) {
        return new TreeMap<>(topics).values().stream()
            .map(topic -> topic.name() + "*" + topic.numberOfPartitions()).collect(Collectors.joining(","));
    }

    private static StreamsGroupTopologyValue.Subtopology subtopology(String id, List<String> items) {
        StreamsGroupTopologyValue.Subtopology made = new StreamsGroupTopologyValue.Subtopology().setSubtopologyId(id);
        List<String> repartition = new ArrayList<>();
        for (String item : items) {
            String rest = item.substring(1);
            switch (item.charAt(0)) {
                case '>' -> made.repartitionSinkTopics().add(rest);
                case '!' -> made.stateChangelogTopics().add(new StreamsGroupTopologyValue.TopicInfo().setName(rest));
                case '<' -> {
                    String[] parts = rest.split("\\*");
                    repartition.add(parts[0]);
                    made.repartitionSourceTopics().add(new StreamsGroupTopologyValue.TopicInfo()
                        .setName(parts[0]).setPartitions(parts.length > 1 ? Integer.parseInt(parts[1]) : 0));
                }
                case '+' -> { }
                default -> made.sourceTopics().add(item);
            }
        }
        for (String item : items) {
            if (item.charAt(0) != '+') continue;
            StreamsGroupTopologyValue.CopartitionGroup group = new StreamsGroupTopologyValue.CopartitionGroup();
            for (String name : item.substring(1).split("\\+")) {
                short source = (short) made.sourceTopics().indexOf(name);
                if (source >= 0) group.sourceTopics().add(source);
                short topic = (short) repartition.indexOf(name);
                if (topic >= 0) group.repartitionSourceTopics().add(topic);
            }
            made.copartitionGroups().add(group);
        }
        return made;
    }

    private static CoordinatorMetadataImage image(Map<String, Integer> counts) {
        return proxy(CoordinatorMetadataImage.class, name -> !counts.containsKey(name) ? Optional.empty()
            : Optional.of(proxy(CoordinatorMetadataImage.TopicMetadata.class, none -> counts.get(name))));
    }

    /** An object of an interface, all of whose methods return what a function makes of the first argument. */
    private static <T> T proxy(Class<T> type, java.util.function.Function<Object, Object> answer) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (self, method, arguments) -> answer.apply(arguments == null ? null : arguments[0])));
    }
}
