package kwire.tests;

import java.util.Collection;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What an invocation asked for that a cluster of processes does not have, and what its nodes printed. */
public final class Marks {
    public static final Collection<String> INSIDES = new ConcurrentLinkedQueue<>();
    public static final Collection<String> OUTPUT = new ConcurrentLinkedQueue<>();

    private Marks() {
    }

    public static void clear() {
        INSIDES.clear();
        OUTPUT.clear();
    }

    /** Make the error for a test that looks into a JVM broker. An Error: helpers that retry on exceptions let it pass. */
    public static NeedsInsides insides(String what) {
        INSIDES.add(what);
        return new NeedsInsides(what);
    }

    public static final class NeedsInsides extends Error {
        private NeedsInsides(String what) {
            super("only a broker in this JVM has " + what);
        }
    }
}
