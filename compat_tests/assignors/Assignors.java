import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Computes target assignments with Apache Kafka's own assignors.
 *
 * Each line of the file that the argument names is a group: "assignor type topics assignable members". A topic is
 * "id:partitions:name"; other fields use its number in this list. A member is "id|instance|topics|target", a set of
 * partitions "topic:partition.partition". Empty fields are "-". For each group it prints the partitions of each
 * member, or "failed" with the reason.
 */
public class Assignors {
    private static final Map<String, PartitionAssignor> ASSIGNORS = Map.of(
        "uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    public static void main(String[] arguments) throws Exception {
        try (Stream<String> lines = Files.lines(Path.of(arguments[0]))) {
            lines.map(Assignors::assign).forEachOrdered(System.out::println);
        }
    }

    private static String assign(String line) {
        String[] fields = line.split(" ");
        List<Uuid> ids = new ArrayList<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        List<String> topicNames = new ArrayList<>();
        for (String topic : list(fields[2], ",")) {
            long upper = Long.parseUnsignedLong(topic.substring(0, 16), 16);
            ids.add(new Uuid(upper, Long.parseUnsignedLong(topic.substring(16, 32), 16)));
            String[] countAndName = topic.substring(33).split(":");
            counts.put(ids.get(ids.size() - 1), Integer.parseInt(countAndName[0]));
            topicNames.add(countAndName[1]);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        List<String> names = new ArrayList<>();
        for (String text : list(fields[4], ";")) {
            String[] member = text.split("\\|");
            String name = text(member[0]);
            Map<Uuid, Set<Integer>> target = partitions(member[3], ids);
            // A member keeps the names in a HashSet, and the ids are seen in the order of that.
            List<String> given = list(member[2], "\\.").stream().map(it -> topicNames.get(Integer.parseInt(it))).sorted().toList();
            Set<Uuid> subscribed = new LinkedHashSet<>();
            new HashSet<>(given).forEach(topic -> subscribed.add(ids.get(topicNames.indexOf(topic))));
            Optional<String> instance = member[1].equals("-") ? Optional.empty() : Optional.of(text(member[1]));
            members.put(name, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, subscribed, new Assignment(target)));
            target.forEach((topic, own) -> own.forEach(
                partition -> owners.computeIfAbsent(topic, it -> new HashMap<>()).put(partition, name)));
            names.add(name);
        }
        GroupSpec group = new GroupSpecImpl(
            members, fields[1].equals("H") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, owners,
            fields[3].equals("all") ? Optional.empty() : Optional.of(partitions(fields[3], ids)));
        try {
            Map<String, MemberAssignment> result = ASSIGNORS.get(fields[0]).assign(group, new Topics(counts)).members();
            return names.stream().map(name -> shown(result.get(name), ids)).collect(Collectors.joining(";"));
        } catch (RuntimeException error) {
            return "failed: " + error.toString().replace('\n', ' ');
        }
    }

    private static List<String> list(String text, String separator) {
        return text.equals("-") ? List.of() : List.of(text.split(separator));
    }

    private static String text(String hexadecimal) {
        return new String(HexFormat.of().parseHex(hexadecimal), StandardCharsets.UTF_8);
    }

    /** Partitions by topic, in the collections that Assignment.fromRecord creates. */
    private static Map<Uuid, Set<Integer>> partitions(String text, List<Uuid> ids) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (String topic : list(text, ",")) {
            String[] parts = topic.split(":", -1);
            List<Integer> partitions = parts[1].isEmpty() ? List.of()
                : Stream.of(parts[1].split("\\.")).map(Integer::valueOf).collect(Collectors.toList());
            found.put(ids.get(Integer.parseInt(parts[0])), new HashSet<>(partitions));
        }
        return found;
    }

    private static String shown(MemberAssignment assignment, List<Uuid> ids) {
        if (assignment == null) return "-";
        List<String> topics = new ArrayList<>();
        assignment.partitions().forEach((topic, partitions) -> {
            if (!partitions.isEmpty()) topics.add(ids.indexOf(topic) + ":"
                + partitions.stream().sorted().map(String::valueOf).collect(Collectors.joining(".")));
        });
        return topics.isEmpty() ? "-" : String.join(",", topics);
    }

    private record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
