import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Answers questions with Apache Kafka's own StandardAuthorizer.
 *
 * Each line of the file that the argument names is a set of entries with questions: "super users, allow without
 * entries, entries, questions", where texts are in hex. An entry is
 * "resource|name|pattern|principal|host|operation|permission". A question is "principal|host|operation|resource|name",
 * or without the name about any resource of the type. For each line it prints one digit for each question: 1 for yes.
 */
public class Authorizations {
    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 9;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Stream<String> lines = Files.lines(Path.of(arguments[0]))) {
            lines.map(Authorizations::answer).forEachOrdered(System.out::println);
        }
    }

    private static String answer(String line) {
        String[] fields = line.split(" ", -1);
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "super.users", text(fields[0]), "allow.everyone.if.no.acl.found", fields[1], "node.id", "1"));
        Metrics metrics = new Metrics();
        authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (String entry : list(fields[2])) {
            acls.put(Uuid.randomUuid(), acl(entry.split("\\|", -1)));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        StringBuilder answers = new StringBuilder();
        for (String question : list(fields[3])) {
            answers.append(isAllowed(authorizer, question.split("\\|", -1)) ? '1' : '0');
        }
        metrics.close();
        return answers.toString();
    }

    private static StandardAcl acl(String[] fields) {
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(fields[0])), text(fields[1]),
            PatternType.fromCode(Byte.parseByte(fields[2])), text(fields[3]), text(fields[4]),
            AclOperation.fromCode(Byte.parseByte(fields[5])), AclPermissionType.fromCode(Byte.parseByte(fields[6])));
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, String[] fields) {
        AclOperation operation = AclOperation.fromCode(Byte.parseByte(fields[2]));
        ResourceType type = ResourceType.fromCode(Byte.parseByte(fields[3]));
        Client client;
        try {
            KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(text(fields[0]));
            client = new Client(principal, InetAddress.getByName(text(fields[1])));
        } catch (java.net.UnknownHostException error) {
            throw new IllegalArgumentException(error);
        }
        if (fields.length == 4) {
            return authorizer.authorizeByResourceType(client, operation, type) == AuthorizationResult.ALLOWED;
        }
        ResourcePattern resource = new ResourcePattern(type, text(fields[4]), PatternType.LITERAL);
        return authorizer.authorize(client, List.of(new Action(operation, resource, 1, true, true))).get(0)
            == AuthorizationResult.ALLOWED;
    }

    private static String[] list(String field) {
        return field.isEmpty() ? new String[0] : field.split(",");
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }
}
