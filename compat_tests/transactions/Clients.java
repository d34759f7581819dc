// Producers and consumers of the Java client: they execute each line of standard input and print a line of JSON for it:
//   {"do": "producer", "as": NAME, "settings": {...}}          initialises transactions if it has a transactional id
//   {"do": "consumer", "as": NAME, "settings": {...}, "places": [[TOPIC, PARTITION]] | "topics": [TOPIC]}
//   {"do": "begin" | "commit" | "abort", "as": NAME}
//   {"do": "send", "as": NAME, "topic": T, "partition": P, "values": [TEXT]}    returns the offsets
//   {"do": "hand", ...as for send}       returns a number; {"do": "told", "as": NAME, "number": N} returns the offsets
//   {"do": "keep", "as": CONSUMER}                             commits the offsets of what was read
//   {"do": "read", "as": NAME, "count": N, "ms": N}      returns [TOPIC, PARTITION, OFFSET, TEXT], fewer after the time
//   {"do": "ends" | "committed", "as": NAME}                   returns [TOPIC, PARTITION, OFFSET] of each partition
//   {"do": "move", "as": PRODUCER, "from": CONSUMER, "topic": T, "commits": BOOLEAN}   returns the records' number
//   {"do": "close", "as": NAME}
// The answer is {"result": ...} or {"error": the exception's class, "message": ...}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

public final class Clients {
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration CLOSING = Duration.ofSeconds(5);

    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();
    private final List<List<Future<RecordMetadata>>> handed = new ArrayList<>();

    public static void main(String[] unused) throws Exception {
        Clients clients = new Clients();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println(JSON.writeValueAsString(clients.answer(JSON.readTree(line))));
            System.out.flush();
        }
        System.exit(0);
    }

    private Map<String, Object> answer(JsonNode order) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("result", execute(order));
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    private Object execute(JsonNode order) throws Exception {
        String name = order.get("as").asText();
        switch (order.get("do").asText()) {
            case "producer": return producer(name, settings(order, "Serializer"));
            case "consumer": return consumer(name, order);
            case "begin": producers.get(name).beginTransaction(); return null;
            case "commit": producers.get(name).commitTransaction(); return null;
            case "abort": producers.get(name).abortTransaction(); return null;
            case "send": return send(producers.get(name), order);
            case "hand": handed.add(handOver(producers.get(name), order)); return handed.size() - 1;
            case "told": return offsets(handed.get(order.get("number").asInt()));
            case "keep": consumers.get(name).commitSync(); return null;
            case "read": return read(consumers.get(name), order.get("count").asInt(), order.get("ms").asLong());
            case "ends": return ends(consumers.get(name));
            case "committed": return committed(consumers.get(name));
            case "move": return move(producers.get(name), consumers.get(order.get("from").asText()), order);
            case "close": return close(name);
            default: throw new IllegalArgumentException(order.toString());
        }
    }

    private static Properties settings(JsonNode order, String kind) {
        Properties settings = new Properties();
        order.get("settings").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        settings.put("key." + kind.toLowerCase(), STRINGS + kind);
        settings.put("value." + kind.toLowerCase(), STRINGS + kind);
        return settings;
    }

    private Object producer(String name, Properties settings) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producers.put(name, producer);
        if (settings.containsKey("transactional.id")) {
            producer.initTransactions();
        }
        return null;
    }

    private Object consumer(String name, JsonNode order) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(order, "Deserializer"));
        consumers.put(name, consumer);
        if (order.has("topics")) {
            consumer.subscribe(List.of(order.get("topics").get(0).asText()));
            return null;
        }
        List<TopicPartition> places = new ArrayList<>();
        order.get("places").forEach(each -> places.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        consumer.assign(places);
        consumer.seekToBeginning(places);
        return null;
    }

    private static Object send(KafkaProducer<String, String> producer, JsonNode order) throws Exception {
        List<Future<RecordMetadata>> sent = handOver(producer, order);
        producer.flush();
        return offsets(sent);
    }

    private static List<Future<RecordMetadata>> handOver(KafkaProducer<String, String> producer, JsonNode order) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : order.get("values")) {
            int partition = order.get("partition").asInt();
            sent.add(producer.send(new ProducerRecord<>(order.get("topic").asText(), partition, null, value.asText())));
        }
        return sent;
    }

    private static Object offsets(List<Future<RecordMetadata>> sent) throws Exception {
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    private static Object read(KafkaConsumer<String, String> consumer, int count, long milliseconds) {
        List<Object> received = new ArrayList<>();
        long deadline = System.currentTimeMillis() + milliseconds;
        while (received.size() < count && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                received.add(List.of(each.topic(), each.partition(), each.offset(), each.value()));
            }
        }
        return received;
    }

    private static Object ends(KafkaConsumer<String, String> consumer) {
        List<Object> ends = new ArrayList<>();
        consumer.endOffsets(consumer.assignment()).forEach(
            (place, offset) -> ends.add(List.of(place.topic(), place.partition(), offset)));
        return ends;
    }

    private static Object committed(KafkaConsumer<String, String> consumer) {
        List<Object> committed = new ArrayList<>();
        consumer.committed(consumer.assignment()).forEach((place, offset) -> {
            if (offset != null) {
                committed.add(List.of(place.topic(), place.partition(), offset.offset()));
            }
        });
        return committed;
    }

    private static Object move(
            KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, JsonNode order) {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        producer.beginTransaction();
        int moved = 0;
        for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500))) {
            producer.send(new ProducerRecord<>(order.get("topic").asText(), each.partition(), null, each.value()));
            next.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
            moved++;
        }
        producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
        if (order.get("commits").asBoolean()) {
            producer.commitTransaction();
            return moved;
        }
        producer.abortTransaction();
        consumer.committed(next.keySet()).forEach(
            (place, offset) -> consumer.seek(place, offset == null ? 0 : offset.offset()));
        return 0;
    }

    private Object close(String name) {
        if (producers.containsKey(name)) {
            producers.remove(name).close(CLOSING);
        } else {
            consumers.remove(name).close();
        }
        return null;
    }
}
