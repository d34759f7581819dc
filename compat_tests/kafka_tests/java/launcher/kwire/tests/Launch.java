package kwire.tests;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs test classes and appends one line of JSON for each invocation to a file:
 * {@code Launch FILE CLASS...} or {@code Launch FILE CLASS#METHOD...}.
 */
public final class Launch implements TestExecutionListener {
    private static final int TRACE_LINES = 25;
    private static final int OUTPUT_CHARACTERS = 6000;
    private final Map<String, Long> started = new ConcurrentHashMap<>();
    private final ObjectMapper json = new ObjectMapper();
    private final OutputStream report;

    private Launch(OutputStream report) {
        this.report = report;
    }

    public static void main(String[] arguments) throws Exception {
        List<DiscoverySelector> selectors = new ArrayList<>();
        for (int index = 1; index < arguments.length; index++) {
            selectors.addAll(selectorsOf(arguments[index]));
        }
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(selectors)
            .configurationParameter("junit.jupiter.execution.timeout.default", System.getProperty("test.seconds") + " s")
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.extensions.autodetection.include", "kwire.tests.*,org.apache.kafka.common.test.*")
            .configurationParameter("junit.jupiter.params.displayname.default", "{displayName}.{argumentsWithNames}")
            .build();
        Unserved.listen();
        try (FileOutputStream report = new FileOutputStream(arguments[0], true)) {
            LauncherFactory.create().execute(request, new Launch(report));
        }
        System.exit(0);
    }

    private static List<DiscoverySelector> selectorsOf(String argument) throws ClassNotFoundException {
        String[] parts = argument.split("#");
        if (parts.length == 1) {
            return List.of(selectClass(argument));
        }
        List<DiscoverySelector> selectors = new ArrayList<>();
        for (var method : Class.forName(parts[0]).getMethods()) {
            addMethod(selectors, parts, method);
        }
        for (var method : Class.forName(parts[0]).getDeclaredMethods()) {
            if (!java.lang.reflect.Modifier.isPublic(method.getModifiers())) {
                addMethod(selectors, parts, method);
            }
        }
        return selectors;
    }

    private static void addMethod(List<DiscoverySelector> selectors, String[] parts, java.lang.reflect.Method method) {
        if (method.getName().equals(parts[1]) && !method.isSynthetic()) {
            selectors.add(selectMethod(method.getDeclaringClass().getClassLoader() == null ? method.getDeclaringClass()
                : classOf(parts[0]), method));
        }
    }

    private static Class<?> classOf(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void executionStarted(TestIdentifier identifier) {
        started.put(identifier.getUniqueId(), System.nanoTime());
        if (identifier.isTest()) {
            Marks.clear();
            Unserved.SAID.clear();
        }
    }

    @Override
    public void executionSkipped(TestIdentifier identifier, String reason) {
        write(identifier, "skipped", Map.of("reason", reason));
    }

    @Override
    public void executionFinished(TestIdentifier identifier, TestExecutionResult result) {
        boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
        if (!identifier.isTest() && !failed) {
            return;
        }
        Map<String, Object> more = new LinkedHashMap<>();
        more.put("insides", List.copyOf(Marks.INSIDES));
        result.getThrowable().ifPresent(error -> {
            List<String> errors = chain(error);
            errors.addAll(Unserved.SAID);
            more.put("errors", errors);
            more.put("trace", trace(error));
        });
        if (failed) {
            String output = String.join("\n", Marks.OUTPUT);
            more.put("output", output.substring(Math.max(0, output.length() - OUTPUT_CHARACTERS)));
        }
        String status = switch (result.getStatus()) {
            case SUCCESSFUL -> "passed";
            case ABORTED -> "skipped";
            case FAILED -> "failed";
        };
        write(identifier, status, more);
    }

    private static List<String> chain(Throwable error) {
        List<String> errors = new ArrayList<>();
        for (Throwable each = error; each != null && errors.size() < 12; each = each.getCause()) {
            errors.add(each.toString());
            for (Throwable suppressed : each.getSuppressed()) {
                errors.add(suppressed.toString());
            }
        }
        return errors;
    }

    private static List<String> trace(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        List<String> lines = new ArrayList<>();
        for (StackTraceElement each : root.getStackTrace()) {
            if (lines.size() < TRACE_LINES && !each.getClassName().startsWith("org.junit")) {
                lines.add(each.toString());
            }
        }
        return lines;
    }

    private synchronized void write(TestIdentifier identifier, String status, Map<String, ?> more) {
        Map<String, Object> line = new LinkedHashMap<>();
        identifier.getSource().ifPresent(source -> {
            if (source instanceof MethodSource method) {
                line.put("class", method.getClassName());
                line.put("method", method.getMethodName());
            } else if (source instanceof ClassSource type) {
                line.put("class", type.getClassName());
            }
        });
        line.put("name", identifier.getDisplayName());
        line.put("test", identifier.isTest());
        line.put("status", status);
        Long start = started.get(identifier.getUniqueId());
        line.put("seconds", start == null ? 0 : Math.round((System.nanoTime() - start) / 1e7) / 100.0);
        line.putAll(more);
        try {
            report.write((json.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8));
            report.flush();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
