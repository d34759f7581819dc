package kwire.tests;

import java.io.IOException;
import java.net.ServerSocket;

/** Ports for nodes, from a range of this JVM's own below those that the system gives to clients. */
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
