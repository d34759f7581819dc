import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producers, each of which commits one transaction after the other; prints transactions a second.
 *
 * <p>Ends with status 3 if the producer requests a commit before it has sent the records. With any broker this happens
 * once in some thousand transactions, and the measurement is then invalid.
 */
public final class Transactions {
    private static final int RECORDS = 10;
    private static final int RECORD_BYTES = 100;

    private Transactions() {
    }

    /** Arguments: bootstrap, topic, its partitions, producers, seconds to warm up, seconds measured. */
    public static void main(String[] arguments) throws Exception {
        int producers = Integer.parseInt(arguments[3]);
        CountDownLatch ready = new CountDownLatch(producers);
        AtomicLong committed = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            int own = number;
            Thread thread = new Thread(() -> commit(arguments, own, ready, committed));
            thread.setDaemon(true);
            thread.setUncaughtExceptionHandler((failed, error) -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(error instanceof InvalidTxnStateException ? 3 : 1);
            });
            thread.start();
            threads.add(thread);
        }
        ready.await();
        Thread.sleep((long) (1000 * Double.parseDouble(arguments[4])));
        long before = committed.get();
        long started = System.nanoTime();
        Thread.sleep((long) (1000 * Double.parseDouble(arguments[5])));
        System.out.println((committed.get() - before) / ((System.nanoTime() - started) / 1e9));
        System.exit(0);
    }

    private static void commit(String[] arguments, int number, CountDownLatch ready, AtomicLong committed) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", "bench-" + number + "-" + System.nanoTime());
        settings.put("linger.ms", "0");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        ready.countDown();
        int partitions = Integer.parseInt(arguments[2]);
        while (true) {
            producer.beginTransaction();
            for (int record = 0; record < RECORDS; record++) {
                producer.send(new ProducerRecord<>(arguments[1], number % partitions, null, new byte[RECORD_BYTES]));
            }
            producer.commitTransaction();
            committed.incrementAndGet();
        }
    }
}
