import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Configuration data of Apache Kafka, from its own classes.
 *
 * "keys" prints every key as JSON. "start FILE" reads lines name=value. For each it prints the result of a start with
 * the settings of FILE and this one changed: "ok", or the error message, as a JSON string.
 */
public class Truth {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("keys")) {
            keys();
        } else {
            start(arguments[1]);
        }
    }

    private static void keys() throws Exception {
        ArrayNode all = JSON.createArrayNode();
        add(all, "broker", AbstractKafkaConfig.CONFIG_DEF);
        add(all, "topic", LogConfig.configDefCopy());
        add(all, "group", GroupConfig.CONFIG_DEF);
        add(all, "client-metrics", ClientMetricsConfigs.configDef());
        System.out.println(JSON.writeValueAsString(all));
    }

    private static void add(ArrayNode all, String kind, ConfigDef definition) {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            ObjectNode node = all.addObject();
            node.put("kind", kind);
            node.put("name", key.name);
            node.put("type", key.type.name());
            node.put("has_default", key.hasDefault());
            node.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            node.put("validator", key.validator == null ? null : key.validator.toString());
            node.put("internal", key.internalConfig);
            node.put("update", kind.equals("broker") ? modes.getOrDefault(key.name, "read-only") : null);
        }
    }

    private static void start(String file) throws Exception {
        Properties base = new Properties();
        base.load(new java.io.FileReader(file));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int equals = line.indexOf('=');
            Properties changed = new Properties();
            changed.putAll(base);
            changed.put(line.substring(0, equals), line.substring(equals + 1));
            System.out.println(JSON.writeValueAsString(said(changed)));
        }
    }

    private static String said(Properties settings) {
        try {
            KafkaConfig.fromProps(settings, false);
            return "ok";
        } catch (Throwable rejected) {
            return "rejected: " + rejected.getMessage();
        }
    }
}
