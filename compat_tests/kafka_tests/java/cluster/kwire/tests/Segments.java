package kwire.tests;

import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.RecordBatch;

/** Segment files of a partition's directory. */
final class Segments {
    private Segments() {
    }

    static List<File> of(File directory) {
        File[] found = directory.listFiles((parent, name) -> name.endsWith(".log"));
        return found == null ? List.of() : Arrays.stream(found).sorted().toList();
    }

    static long size(File directory) {
        return of(directory).stream().mapToLong(File::length).sum();
    }

    /** Return the offset after the last batch; for a segment without a batch, the base offset in its name. */
    static long endOffset(File directory) throws IOException {
        List<File> segments = of(directory);
        if (segments.isEmpty()) {
            return 0;
        }
        File last = segments.get(segments.size() - 1);
        long end = Long.parseLong(last.getName().replace(".log", ""));
        FileRecords records = FileRecords.open(last, false);
        try {
            for (RecordBatch batch : records.batches()) {
                end = batch.nextOffset();
            }
        } finally {
            records.closeHandlers(); // close() would trim the file, which is a running node's
        }
        return end;
    }
}
