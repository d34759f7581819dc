package kwire.tests;

import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Leaves out invocations whose parameters name what is not served yet: some wait 10 minutes for it. */
public final class NotServed implements ExecutionCondition {
    private static final Pattern NAMES = Pattern.compile(System.getProperty("kwire.not.served", "(?!)"));

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return NAMES.matcher(context.getDisplayName()).find()
            ? ConditionEvaluationResult.disabled("not served yet")
            : ConditionEvaluationResult.enabled("served");
    }
}
