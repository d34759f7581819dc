package kwire.tests;

import java.util.Collection;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;

/** Collects clients' log messages about unsupported requests, because tests that wait in vain report only a timeout. */
final class Unserved extends AbstractAppender {
    static final Collection<String> SAID = new ConcurrentSkipListSet<>();
    private static final java.util.regex.Pattern TOLD =
        java.util.regex.Pattern.compile("(?:node|broker|cluster) does not support (?:the )?[A-Za-z_ ]+");

    private Unserved() {
        super("unserved", null, null, true, Property.EMPTY_ARRAY);
    }

    static void listen() {
        Unserved appender = new Unserved();
        appender.start();
        ((Logger) LogManager.getRootLogger()).addAppender(appender);
    }

    @Override
    public void append(LogEvent event) {
        var told = TOLD.matcher(event.getMessage().getFormattedMessage());
        if (told.find()) {
            SAID.add("logged: " + told.group());
        }
    }
}
