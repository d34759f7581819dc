package kwire.tests;

import java.util.Collection;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Calls of an invocation that a cluster of processes cannot answer, and the output of its nodes. */
public final class Marks {
    public static final Collection<String> INSIDES = new ConcurrentLinkedQueue<>();
    public static final Collection<String> OUTPUT = new ConcurrentLinkedQueue<>();

    private Marks() {
    }

    public static void clear() {
        INSIDES.clear();
        OUTPUT.clear();
    }

    /** Create the error for a test that inspects a JVM broker: an Error, because some helpers retry on exceptions. */
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
