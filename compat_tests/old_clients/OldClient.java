// Program for the Java client of any version from 1.1 to 3.9: it uses only calls that all of them have.
//   produce BOOTSTRAP TOPIC FIRST COUNT CODEC    prints "sent PARTITION OFFSET" for each record
//   consume BOOTSTRAP TOPIC GROUP COUNT          prints "got PARTITION OFFSET KEY VALUE", then commits: "committed"
//   member BOOTSTRAP TOPIC GROUP                 prints "assigned P,P" until its standard input ends

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

public final class OldClient {
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";

    public static void main(String[] given) throws Exception {
        if (given[0].equals("produce")) {
            produce(given[1], given[2], Integer.parseInt(given[3]), Integer.parseInt(given[4]), given[5]);
        } else if (given[0].equals("consume")) {
            consume(given[1], given[2], given[3], Integer.parseInt(given[4]));
        } else {
            member(given[1], given[2], given[3]);
        }
    }

    private static void produce(String bootstrap, String topic, int first, int count, String codec) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", STRINGS + "Serializer");
        settings.put("value.serializer", STRINGS + "Serializer");
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("compression.type", codec);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = first; number < first + count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "key-" + number % 7, "value-" + number)));
            }
            for (Future<RecordMetadata> each : sent) {
                System.out.println("sent " + each.get().partition() + " " + each.get().offset());
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("key.deserializer", STRINGS + "Deserializer");
        settings.put("value.deserializer", STRINGS + "Deserializer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("heartbeat.interval.ms", "200");
        settings.put("session.timeout.ms", "6000");
        return new KafkaConsumer<>(settings);
    }

    @SuppressWarnings("deprecation")
    private static void consume(String bootstrap, String topic, String group, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, group)) {
            consumer.subscribe(Collections.singletonList(topic));
            for (int seen = 0; seen < count; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(200)) {
                    System.out.println("got " + record.partition() + " " + record.offset() + " " + record.key() + " " + record.value());
                    seen++;
                }
            }
            consumer.commitSync();
            System.out.println("committed");
        }
    }

    @SuppressWarnings("deprecation")
    private static void member(String bootstrap, String topic, String group) throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, group)) {
            consumer.subscribe(Collections.singletonList(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) { }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    System.out.println("assigned " + partitions.stream()
                            .map(each -> Integer.toString(each.partition())).sorted().collect(Collectors.joining(",")));
                }
            });
            Thread reading = new Thread(() -> waitForEnd());
            reading.start();
            while (reading.isAlive()) {
                consumer.poll(100);
            }
        }
    }

    private static void waitForEnd() {
        try {
            while (System.in.read() >= 0) { }
        } catch (java.io.IOException ended) {
            return;
        }
    }
}
