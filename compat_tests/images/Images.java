import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Replays metadata records with Apache Kafka's own classes and prints the snapshots that follow.
 *
 * Each line of the file that the argument names is a log: batches with ";" between them, records in hexadecimal with
 * "," between them. For each log it prints a line: the records of its snapshot, or "failed" with the reason.
 */
public class Images {
    private static final HexFormat HEX = HexFormat.of();
    private static final ImageWriterOptions OPTIONS =
        new ImageWriterOptions.Builder(MetadataVersion.latestTesting()).setEligibleLeaderReplicasEnabled(true).build();

    public static void main(String[] arguments) throws Exception {
        try (Stream<String> lines = Files.lines(Path.of(arguments[0]))) {
            lines.parallel().map(Images::snapshot).forEachOrdered(System.out::println);
        }
    }

    private static String snapshot(String line) {
        try {
            RecordListWriter writer = new RecordListWriter();
            MetadataImage image = replay(line);
            image.write(writer, OPTIONS);
            return writer.records().stream()
                .filter(record -> keepsLevel(record.message(), image))
                .map(Images::encode).collect(Collectors.joining(","));
        } catch (RuntimeException error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "failed: " + String.valueOf(cause).replace('\n', ' ');
        }
    }

    /** Restore the image's metadata.version in its record: the newest version writes the snapshot, to lose nothing. */
    private static boolean keepsLevel(ApiMessage record, MetadataImage image) {
        if (record instanceof FeatureLevelRecord level && level.name().equals(MetadataVersion.FEATURE_NAME)) {
            image.features().metadataVersion().ifPresent(version -> level.setFeatureLevel(version.featureLevel()));
            return image.features().metadataVersion().isPresent();
        }
        return true;
    }

    private static MetadataImage replay(String line) {
        MetadataImage[] newest = {MetadataImage.EMPTY};
        MetadataBatchLoader loader = new MetadataBatchLoader(
            new LogContext(),
            Time.SYSTEM,
            (message, error) -> { throw new IllegalStateException(message, error); },
            (delta, image, manifest) -> newest[0] = image,
            (type, name) -> true);
        long offset = 0;
        for (String batch : line.split(";")) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            for (String record : batch.split(",")) {
                byte[] bytes = HEX.parseHex(record);
                records.add(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length));
            }
            loader.loadBatch(Batch.data(offset, 1, 0L, 1, records), LeaderAndEpoch.UNKNOWN);
            loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
            offset += records.size();
        }
        return newest[0];
    }

    private static String encode(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer output = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(output));
        return HEX.formatHex(output.array());
    }
}
