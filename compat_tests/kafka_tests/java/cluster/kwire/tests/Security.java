package kwire.tests;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;

/** Settings of a kwire node for what Kafka's tests set up in their own JVM: login modules and principal builders. */
final class Security {
    /** Listener for this harness's own requests, if that of the brokers has security, or clients have built principals. */
    static final String OWN_LISTENER = "KWIRE_TESTS";
    private static final String OWN_PRINCIPAL = "User:kwire-tests";
    private static final String AUTHORIZER = "authorizer.class.name";
    private static final String JAAS = ".sasl.jaas.config";
    private static final String MECHANISMS = "sasl.enabled.mechanisms";
    private static final String BUILDER = "principal.builder.class";
    private static final String BUILDERS = "kwire.tests.principals";
    private static final String SERVER_CALLBACKS = "sasl.server.callback.handler.class";
    private static final String CLIENT_CALLBACKS = "sasl.client.callback.handler.class";
    private static final Map<String, String> MODULES = Map.of(
        "PLAIN", "PlainLoginModule", "OAUTHBEARER", "OAuthBearerLoginModule", "GSSAPI", "Krb5LoginModule");

    private final Map<String, Object> properties;
    private final Map<String, String> protocols;

    private Security(Map<String, Object> properties) {
        this.properties = properties;
        this.protocols = protocols(properties);
    }

    /** Return the settings for a node's properties. Its listener for this harness, if it needs one, is added to its ports. */
    static Map<String, Object> complete(Map<String, Object> given, Map<String, Integer> ports) {
        Map<String, Object> properties = new TreeMap<>(given);
        Security security = new Security(properties);
        security.giveLoginModules();
        security.replaceCallbacks();
        properties.keySet().removeIf(key -> key.matches(".*ssl\\.(key|trust)manager\\.algorithm")); // names of this JVM's classes
        if (text(properties, AUTHORIZER, "").contains("CredentialsTest$")) { // it allows everything to this principal
            properties.merge("super.users", "User:ANONYMOUS", (before, added) -> before + ";" + added);
        }
        properties.computeIfPresent(AUTHORIZER, (key, name) -> authorizer(name.toString()));
        if (!text(properties, AUTHORIZER, "").isEmpty()) { // also on controllers, to which brokers forward requests
            properties.merge("super.users", OWN_PRINCIPAL, (before, added) -> before + ";" + added);
        }
        boolean isBroker = text(properties, "process.roles", "broker").contains("broker");
        if (isBroker && (security.hasSecuredBrokers() || properties.keySet().stream().anyMatch(key -> key.endsWith(BUILDER)))) {
            ports.put(OWN_LISTENER, Ports.free());
            security.addListener(ports.get(OWN_LISTENER));
        }
        security.replacePrincipalBuilders();
        return properties;
    }

    /** The security protocol of each listener that the properties name, also of controllers on other nodes. */
    private static Map<String, String> protocols(Map<String, Object> properties) {
        Map<String, String> mapped = new HashMap<>();
        for (String each : text(properties, "listener.security.protocol.map", "").split(",")) {
            String[] parts = each.trim().split(":");
            mapped.put(parts[0], parts[parts.length - 1]);
        }
        Map<String, String> found = new TreeMap<>();
        Stream<String> own = Stream.of(text(properties, "listeners", "").split(",")).map(each -> each.trim().split("://")[0]);
        Stream<String> controllers = Stream.of(text(properties, "controller.listener.names", "").split(",")).map(String::trim);
        Stream.concat(own, controllers).filter(name -> !name.isEmpty())
            .forEach(name -> found.put(name, mapped.getOrDefault(name, name)));
        return found;
    }

    private boolean hasSecuredBrokers() {
        String listener = text(properties, "inter.broker.listener.name", text(properties, "security.inter.broker.protocol", "PLAINTEXT"));
        return !protocols.getOrDefault(listener, listener).equals("PLAINTEXT");
    }

    /** Set the login module of each listener and mechanism that has one only in the JVM's JAAS configuration. */
    private void giveLoginModules() {
        protocols.forEach((listener, protocol) -> {
            if (protocol.startsWith("SASL_")) {
                mechanisms(listener).forEach(mechanism -> giveLoginModule(listener, mechanism));
            }
        });
    }

    private TreeSet<String> mechanisms(String listener) {
        Object enabled = properties.getOrDefault(prefix(listener) + MECHANISMS, properties.get(MECHANISMS));
        Stream<String> clients = enabled == null ? Stream.of() : Stream.of(enabled.toString().split(","));
        Stream<Object> nodes = Stream.of("sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol")
            .map(properties::get);
        return Stream.concat(clients.map(String::trim), nodes.filter(each -> each != null).map(Object::toString))
            .collect(Collectors.toCollection(TreeSet::new));
    }

    private void giveLoginModule(String listener, String mechanism) {
        String module = MODULES.getOrDefault(mechanism, "ScramLoginModule");
        for (String section : List.of(listener.toLowerCase() + ".KafkaServer", "KafkaServer")) {
            AppConfigurationEntry[] entries = Configuration.getConfiguration().getAppConfigurationEntry(section);
            if (entries == null) {
                continue;
            }
            for (AppConfigurationEntry entry : entries) {
                if (entry.getLoginModuleName().endsWith("." + module)) {
                    properties.putIfAbsent(jaasKey(listener, mechanism), written(entry.getLoginModuleName(), entry.getOptions()));
                }
            }
            return;
        }
    }

    private static String written(String module, Map<String, ?> options) {
        String written = options.entrySet().stream()
            .map(each -> " " + each.getKey() + "=\"" + each.getValue().toString().replaceAll("([\"\\\\])", "\\\\$1") + "\"")
            .sorted().collect(Collectors.joining());
        return module + " required" + written + ";";
    }

    /** Replace the callback handlers of SaslPlainSslEndToEndAuthorizationTest by the users that they know. */
    private void replaceCallbacks() {
        String handler = "kafka.api.SaslPlainSslEndToEndAuthorizationTest$TestServerCallbackHandler";
        for (String key : List.copyOf(properties.keySet())) {
            if (key.endsWith("." + SERVER_CALLBACKS) && handler.equals(properties.get(key))) {
                properties.remove(key);
                properties.remove(CLIENT_CALLBACKS);
                Map<String, String> options = new TreeMap<>(Map.of("username", "plain-admin", "password", "broker-password"));
                options.putAll(Map.of("user_plain-admin", "broker-password", "user_plain-user", "user1-password",
                    "user_plain-user2", "plain-user2-secret"));
                properties.put(key.replace("." + SERVER_CALLBACKS, JAAS),
                    written("org.apache.kafka.common.security.plain.PlainLoginModule", options));
            }
        }
    }

    /** Return StandardAuthorizer for a subclass: those of tests block its calls, or allow what super users may do. */
    private static String authorizer(String name) {
        try {
            boolean isStandard = !name.isEmpty() && StandardAuthorizer.class.isAssignableFrom(Class.forName(name));
            return isStandard ? StandardAuthorizer.class.getName() : name;
        } catch (ClassNotFoundException error) {
            return name;
        }
    }

    private void addListener(int port) {
        String listener = OWN_LISTENER + "://localhost:" + port;
        properties.merge("listeners", listener, (before, added) -> before + "," + added);
        properties.computeIfPresent("advertised.listeners", (key, before) -> before + "," + listener);
        List<String> pairs = new ArrayList<>();
        protocols.forEach((name, protocol) -> pairs.add(name + ":" + protocol));
        pairs.add(OWN_LISTENER + ":PLAINTEXT");
        properties.put("listener.security.protocol.map", String.join(",", pairs));
        properties.putIfAbsent(BUILDER, "");
    }

    /** Replace Java classes that build principals by one function in Python, which gets their names by listener. */
    private void replacePrincipalBuilders() {
        List<String> named = new ArrayList<>();
        for (String listener : protocols.keySet()) {
            Object own = properties.remove(prefix(listener) + BUILDER);
            Object builder = own == null ? properties.get(BUILDER) : own;
            if (builder != null) {
                named.add(listener + "=" + builder);
            }
        }
        if (!named.isEmpty()) {
            properties.put(BUILDER, "kwire.tests.Principals");
            properties.put(BUILDERS, String.join(",", named));
        }
    }

    private static String prefix(String listener) {
        return "listener.name." + listener.toLowerCase() + ".";
    }

    private static String jaasKey(String listener, String mechanism) {
        return prefix(listener) + mechanism.toLowerCase() + JAAS;
    }

    private static String text(Map<String, Object> properties, String key, String other) {
        return properties.getOrDefault(key, other).toString();
    }
}
