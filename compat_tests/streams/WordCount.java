// Counts words, exactly once, until its standard input ends:
// WordCount BOOTSTRAP APPLICATION INPUT OUTPUT GROUP-PROTOCOL STATE-DIRECTORY
// Each input word adds a record to the output: the key is the word, the value is its count so far. The
// words go through a repartition topic, and the counts are in a store with a changelog. Prints each state it enters.

import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public final class WordCount {
    public static void main(String[] given) throws Exception {
        KafkaStreams streams = new KafkaStreams(topology(given[2], given[3]).build(), settings(given[0], given[1], given[4], given[5]));
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("replaced " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        while (System.in.read() >= 0) { }
        streams.close();
        System.exit(0);
    }

    private static StreamsBuilder topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private static Properties settings(String bootstrap, String application, String protocol, String directory) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", application);
        settings.put("state.dir", directory);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("group.protocol", protocol);
        settings.put("num.stream.threads", "2");
        settings.put("replication.factor", "1");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("auto.offset.reset", "earliest");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("retry.backoff.max.ms", "200");
        if (protocol.equals("classic")) {  // the broker sets these for a streams group
            settings.put("session.timeout.ms", "3000");
            settings.put("heartbeat.interval.ms", "500");
        }
        return settings;
    }
}
