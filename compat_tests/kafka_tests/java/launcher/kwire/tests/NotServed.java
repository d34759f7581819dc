package kwire.tests;

import java.util.Set;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Leaves out the methods ({@code Class.method}, {@code Class.*}) that are known to need a missing capability. */
public final class NotServed implements ExecutionCondition {
    private static final Set<String> METHODS = Set.of(System.getProperty("kwire.left.out", "").split(","));

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return isLeftOut(context)
            ? ConditionEvaluationResult.disabled("not served yet")
            : ConditionEvaluationResult.enabled("served");
    }

    private static boolean isLeftOut(ExtensionContext context) {
        return context.getTestMethod().isPresent()
            && (METHODS.contains(context.getRequiredTestClass().getSimpleName() + "." + context.getRequiredTestMethod().getName())
                || METHODS.contains(context.getRequiredTestClass().getSimpleName() + ".*"));
    }
}
