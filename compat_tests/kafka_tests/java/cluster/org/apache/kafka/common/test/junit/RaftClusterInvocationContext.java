package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/** Replacement of Apache Kafka's class of this name: each invocation gets a cluster of kwire processes. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseName;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String baseName, ClusterConfig config, boolean combined) {
        this.baseName = baseName;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        String shape = combined ? "Combined" : "Isolated";
        return baseName + " [" + index + "] Type=Raft-" + shape + ", " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        ProcessCluster cluster = new ProcessCluster(config, combined);
        return List.of(
            (BeforeEachCallback) context -> {
                cluster.format();
                if (config.isAutoStart()) {
                    cluster.start();
                }
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            (org.junit.jupiter.api.extension.AfterEachCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }
}
