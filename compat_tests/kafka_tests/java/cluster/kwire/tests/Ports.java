package kwire.tests;

import java.io.IOException;
import java.net.ServerSocket;

/** Ports for nodes, from this JVM's own range, below the range that the system assigns to clients. */
final class Ports {
    private static final int FIRST = Integer.getInteger("kwire.first.port", 20000);
    private static final int COUNT = 2000;
    private static int next = 0;

    private Ports() {
    }

    static synchronized int free() {
        for (int tries = 0; tries < COUNT; tries++) {
            int port = FIRST + next++ % COUNT;
            try (ServerSocket socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (IOException taken) {
                continue;
            }
        }
        throw new IllegalStateException("no free port from " + FIRST);
    }
}
