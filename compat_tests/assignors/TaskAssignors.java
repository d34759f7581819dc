import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/**
 * Assigns tasks with Apache Kafka's own StickyTaskAssignor.
 *
 * Each line of the file that the argument names is a group: "replicas subtopologies members". A subtopology is
 * "id:tasks:stateful"; tasks are "id:partition.partition". A member is "id|process|active|standby". Texts are
 * hexadecimal, and empty fields are "-". For each group it prints "active|standby" of each member, or "failed" with
 * the reason.
 */
public class TaskAssignors {
    public static void main(String[] arguments) throws Exception {
        try (Stream<String> lines = Files.lines(Path.of(arguments[0]))) {
            lines.map(TaskAssignors::assign).forEachOrdered(System.out::println);
        }
    }

    private static String assign(String line) {
        String[] fields = line.split(" ");
        TreeMap<String, Integer> counts = new TreeMap<>();
        Set<String> stateful = new HashSet<>();
        for (String text : list(fields[1], ",")) {
            String[] subtopology = text.split(":");
            counts.put(text(subtopology[0]), Integer.parseInt(subtopology[1]));
            if (subtopology[2].equals("1")) stateful.add(text(subtopology[0]));
        }
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        List<String> names = new ArrayList<>();
        for (String text : list(fields[2], ";")) {
            String[] member = text.split("\\|");
            members.put(text(member[0]), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member[2]), tasks(member[3]), Map.of(), text(member[1]),
                Map.of(), Map.of(), Map.of()));
            names.add(text(member[0]));
        }
        try {
            GroupSpecImpl group = new GroupSpecImpl(members, Map.of("num.standby.replicas", fields[0]));
            Map<String, MemberAssignment> result =
                new StickyTaskAssignor().assign(group, new Topology(counts, stateful)).members();
            return names.stream().map(name -> shown(result.get(name))).collect(Collectors.joining(";"));
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

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new HashMap<>();
        for (String each : list(text, ",")) {
            String[] parts = each.split(":");
            found.put(text(parts[0]), Stream.of(parts[1].split("\\.")).map(Integer::valueOf).collect(
                Collectors.toCollection(HashSet::new)));
        }
        return found;
    }

    private static String shown(MemberAssignment member) {
        return shown(member.activeTasks()) + "|" + shown(member.standbyTasks());
    }

    private static String shown(Map<String, Set<Integer>> tasks) {
        if (tasks.isEmpty()) return "-";
        return tasks.entrySet().stream().map(each ->
            HexFormat.of().formatHex(each.getKey().getBytes(StandardCharsets.UTF_8)) + ":"
                + each.getValue().stream().sorted().map(String::valueOf).collect(Collectors.joining("."))
        ).collect(Collectors.joining(","));
    }

    private record Topology(TreeMap<String, Integer> counts, Set<String> stateful) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            return counts.keySet().stream().toList();
        }

        @Override
        public int maxNumInputPartitions(String subtopology) {
            return counts.get(subtopology);
        }

        @Override
        public boolean isStateful(String subtopology) {
            return stateful.contains(subtopology);
        }
    }
}
