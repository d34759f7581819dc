package kwire.tests;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.BrokerState;

/** A kwire node as a process. It ends with this JVM, because no other process holds the pipe that is its input. */
public final class Node {
    private static final long START_SECONDS = 60;
    private static final long STOP_SECONDS = 60;
    /** Exit status of a process that SIGTERM ends before it handles the signal. */
    private static final int TERMINATED = 143;
    public final int id;
    public final boolean isBroker;
    public final boolean isController;
    /** The properties as the test gives them. */
    public final Map<String, Object> properties;
    private final Map<String, Object> settings;
    private final Path directory;
    private final Map<String, Integer> ports;
    private Process process;
    private volatile BrokerState state = BrokerState.NOT_RUNNING;

    Node(int id, boolean isBroker, boolean isController, Map<String, Object> properties, Map<String, Integer> ports, Path directory) {
        this.id = id;
        this.isBroker = isBroker;
        this.isController = isController;
        this.properties = properties;
        this.settings = Security.complete(properties, ports);
        this.ports = ports;
        this.directory = directory;
    }

    public int port(String listener) {
        Integer port = ports.get(listener);
        if (port == null) {
            throw new IllegalArgumentException("node " + id + " has no listener " + listener);
        }
        return port;
    }

    boolean has(String listener) {
        return ports.containsKey(listener);
    }

    /** The state as in BrokerLifecycleManager: a stopped broker stays in SHUTTING_DOWN. */
    public BrokerState state() {
        return process != null && state == BrokerState.NOT_RUNNING ? BrokerState.SHUTTING_DOWN : state;
    }

    public boolean isStopped() {
        return process == null || state == BrokerState.NOT_RUNNING;
    }

    Path file() {
        return directory.resolve("node-" + id + ".properties");
    }

    Path output() {
        return directory.resolve("node-" + id + ".txt");
    }

    void write() throws IOException {
        Properties stored = new Properties();
        settings.forEach((key, value) -> stored.setProperty(key, String.valueOf(value)));
        try (FileOutputStream file = new FileOutputStream(file().toFile())) {
            stored.store(file, null);
        }
    }

    /** Start the process; {@link #awaitReady} waits until it serves. */
    public synchronized void launch() throws IOException {
        if (process != null && process.isAlive()) {
            throw new IllegalStateException("node " + id + " runs already");
        }
        state = BrokerState.STARTING;
        Files.writeString(output(), "");
        List<String> command = new ArrayList<>(
            List.of(System.getProperty("kwire.python"), "-m", "kwire", "server", "--stop-with-stdin", file().toString()));
        if (has(Security.OWN_LISTENER)) {
            command.add("--verbose");
        }
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(output().toFile()));
        process = builder.start();
    }

    public void awaitReady() throws InterruptedException, IOException {
        String wanted = isBroker ? "kwire: serving Kafka on" : "kwire: controlling on";
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
        while (!text().contains(wanted)) {
            if (!process.isAlive()) {
                throw new IllegalStateException("node " + id + " ended with " + process.exitValue() + ": " + text());
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("node " + id + " does not serve after " + START_SECONDS + " s: " + text());
            }
            Thread.sleep(20);
        }
        state = BrokerState.RUNNING;
    }

    String text() throws IOException {
        return Files.exists(output()) ? Files.readString(output(), StandardCharsets.UTF_8) : "";
    }

    synchronized void tell() {
        if (process != null && state != BrokerState.NOT_RUNNING) {
            state = BrokerState.SHUTTING_DOWN;
            process.destroy();
        }
    }

    /** Return why the node ended abnormally, or null. */
    synchronized String awaitEnd() throws InterruptedException, IOException {
        if (process == null || state == BrokerState.NOT_RUNNING) {
            return null;
        }
        state = BrokerState.NOT_RUNNING;
        if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
            return "node " + id + " does not stop within " + STOP_SECONDS + " s: " + text();
        }
        boolean endedWhileStarting = process.exitValue() == TERMINATED && text().isEmpty();
        return process.exitValue() == 0 || endedWhileStarting ? null : "node " + id + " ended with " + process.exitValue() + ": " + text();
    }

    void kill() throws InterruptedException {
        if (process != null) {
            process.destroyForcibly().waitFor();
            state = BrokerState.NOT_RUNNING;
        }
    }

    /** Return true if the process ended without being stopped. */
    boolean endedByItself() {
        return process != null && state != BrokerState.NOT_RUNNING && state != BrokerState.SHUTTING_DOWN && !process.isAlive();
    }

    /** Return the directory of a partition in service, in any log directory. */
    java.util.Optional<File> directoryOf(TopicPartition partition) {
        return java.util.Arrays.stream(properties.get("log.dirs").toString().split(","))
            .map(each -> new File(each, partition.toString()).getAbsoluteFile()).filter(File::isDirectory).findFirst();
    }
}
