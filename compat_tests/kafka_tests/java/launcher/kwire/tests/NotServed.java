package kwire.tests;

import java.util.Set;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Leaves out invocations whose parameters name an unsupported capability, some of which wait 10 minutes for it, and
 * the methods ({@code Class.method}, {@code Class.*}) that are known to need one.
 */
public final class NotServed implements ExecutionCondition {
    private static final Pattern NAMES = Pattern.compile(System.getProperty("kwire.not.served", "(?!)"));
    private static final Set<String> METHODS = Set.of(System.getProperty("kwire.left.out", "").split(","));

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return NAMES.matcher(context.getDisplayName()).find() || isLeftOut(context)
            ? ConditionEvaluationResult.disabled("not served yet")
            : ConditionEvaluationResult.enabled("served");
    }

    private static boolean isLeftOut(ExtensionContext context) {
        return context.getTestMethod().isPresent()
            && (METHODS.contains(context.getRequiredTestClass().getSimpleName() + "." + context.getRequiredTestMethod().getName())
                || METHODS.contains(context.getRequiredTestClass().getSimpleName() + ".*"));
    }
}
