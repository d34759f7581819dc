package kwire.tests;

import com.yammer.metrics.core.Gauge;
import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.UserScramCredentialsDescription;
import org.apache.kafka.common.metadata.DelegationTokenRecord;
import org.apache.kafka.common.metadata.RemoveDelegationTokenRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.metadata.DelegationTokenData;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

/** Delegation tokens, SCRAM users and sessions that a node knows, as the objects of Kafka's broker. */
final class Logins {
    private static final String EXPIRED = "its session has expired (connections.max.reauth.ms)";
    private static final String FAILED_AGAIN = "failed re-authentication";
    private static final byte[] NOT_TOLD = new byte[0];

    private final Nodes nodes;
    /** The tokens that all brokers had when they were last compared. */
    private Set<String> settled = Set.of();

    Logins(Nodes nodes) {
        this.nodes = nodes;
    }

    /** Return the tokens that a broker has, from its copy of the metadata log. If they are others than before, all have them. */
    synchronized DelegationTokenCache tokens(Node node) throws IOException, InterruptedException {
        DelegationTokenCache found = stored(node);
        if (!ids(found).equals(settled)) {
            Watching.metadataIsCaughtUp(nodes);
            found = stored(node);
            settled = ids(found);
        }
        return found;
    }

    private static Set<String> ids(DelegationTokenCache tokens) {
        return tokens.tokens().stream().map(TokenInformation::tokenId).collect(Collectors.toSet());
    }

    private static DelegationTokenCache stored(Node node) throws IOException {
        DelegationTokenCache found = new DelegationTokenCache(ScramMechanism.mechanismNames());
        Object directory = node.properties.getOrDefault("metadata.log.dir", node.properties.get("log.dirs"));
        for (File segment : Segments.of(new File(directory.toString().split(",")[0], "__cluster_metadata-0"))) {
            FileRecords records = FileRecords.open(segment, false);
            try {
                for (RecordBatch batch : records.batches()) {
                    addTokens(found, batch);
                }
            } finally {
                records.closeHandlers(); // close() would trim the file, which is a running node's
            }
        }
        return found;
    }

    private static void addTokens(DelegationTokenCache found, RecordBatch batch) {
        if (batch.isControlBatch()) {
            return;
        }
        for (Record record : batch) {
            ApiMessageAndVersion read = MetadataRecordSerde.INSTANCE.read(
                new ByteBufferAccessor(record.value()), record.valueSize());
            if (read.message() instanceof DelegationTokenRecord token) {
                TokenInformation information = DelegationTokenData.fromRecord(token).tokenInformation();
                found.addToken(token.tokenId(), information);
            } else if (read.message() instanceof RemoveDelegationTokenRecord removed) {
                found.removeToken(removed.tokenId());
            }
        }
    }

    /** Return the SCRAM users that a broker knows. What it does not tell of them, their keys, is empty. */
    CredentialProvider users(Node node) throws InterruptedException, ExecutionException {
        CredentialProvider found = new CredentialProvider(
            ScramMechanism.mechanismNames(), new DelegationTokenCache(ScramMechanism.mechanismNames()));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", "localhost:" + nodes.nodePort(node)))) {
            for (UserScramCredentialsDescription user : admin.describeUserScramCredentials().all().get().values()) {
                for (ScramCredentialInfo known : user.credentialInfos()) {
                    found.updateCredential(known.mechanism(), user.name(),
                        new ScramCredential(NOT_TOLD, NOT_TOLD, NOT_TOLD, known.iterations()));
                }
            }
        }
        return found;
    }

    /** Return the metrics of a broker's sessions; only the assertions about them in EndToEndAuthorizationTest may ask. */
    static Metrics sessions(Node node) throws IOException {
        boolean isKnown = StackWalker.getInstance().walk(frames -> frames.anyMatch(
            frame -> frame.getMethodName().equals("confirmReauthenticationMetrics")));
        if (!isKnown) {
            throw Marks.insides("BrokerServer.metrics");
        }
        Metrics found = new Metrics();
        long expired = count(node, EXPIRED);
        long failed = count(node, FAILED_AGAIN);
        found.addMetric(found.metricName("expired-connections-killed-count", "sessions"), (config, now) -> (double) expired);
        found.addMetric(found.metricName("failed-reauthentication-total", "sessions"), (config, now) -> (double) failed);
        return found;
    }

    /** Add the number of all brokers' expired sessions to this JVM's metrics; Kafka's harness clears these. */
    static void addExpiredSessions(Nodes nodes) {
        KafkaYammerMetrics.defaultRegistry().newGauge(
            KafkaYammerMetrics.getMetricName("kwire.tests", "Sessions", "ExpiredConnectionsKilledCount"), new Gauge<Double>() {
                @Override
                public Double value() {
                    return nodes.brokers().stream().mapToDouble(node -> count(node, EXPIRED)).sum();
                }
            });
    }

    private static long count(Node node, String message) {
        try {
            return node.text().lines().filter(line -> line.contains(message)).count();
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
