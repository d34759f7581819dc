package kafka.server;

import java.util.Properties;
import java.util.stream.Stream;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils;
import kafka.utils.TestUtils$;
import kwire.tests.Marks;
import kwire.tests.ProcessQuorum;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Replacement of Apache Kafka's class of this name: one controller, and brokers on demand, as kwire processes. */
@Tag("integration")
public abstract class QuorumTestHarness implements Logging {
    private final MockFaultHandler faultHandler = new MockFaultHandler("quorum");
    private final QuorumTestHarnessFaultHandlerFactory faultHandlerFactory =
        new QuorumTestHarnessFaultHandlerFactory(faultHandler);
    private String logIdent;
    private TestInfo testInfo;
    private QuorumImplementation implementation;

    @BeforeAll
    public static void setUpClass() {
        QuorumTestHarness$.MODULE$.setUpClass();
    }

    @AfterAll
    public static void tearDownClass() {
        QuorumTestHarness$.MODULE$.tearDownClass();
    }

    public static void verifyNoUnexpectedThreads(String when) {
        QuorumTestHarness$.MODULE$.verifyNoUnexpectedThreads(when);
    }

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    public Seq<Properties> kraftControllerConfigs(TestInfo info) {
        return CollectionConverters.asScala(java.util.List.of(new Properties()));
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public QuorumImplementation implementation() {
        return implementation;
    }

    public void implementation_$eq(QuorumImplementation other) {
        implementation = other;
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        Option<GroupProtocol> named = maybeGroupProtocolSpecified();
        if (named.isEmpty()) {
            throw new RuntimeException("the test has no parameter groupProtocol");
        }
        return named.get();
    }

    public ControllerServer controllerServer() {
        return ((ProcessQuorum) implementation).controllerServer();
    }

    public Seq<ControllerServer> controllerServers() {
        return CollectionConverters.asScala(java.util.List.of(controllerServer()));
    }

    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() {
        return faultHandlerFactory;
    }

    public MockFaultHandler faultHandler() {
        return faultHandler;
    }

    @BeforeEach
    public void setUp(TestInfo info) throws Exception {
        testInfo = info;
        Exit.setExitProcedure((status, message) -> {
            throw new AssertionError("exit with " + status + ": " + message);
        });
        Exit.setHaltProcedure((status, message) -> {
            throw new AssertionError("halt with " + status + ": " + message);
        });
        Seq<Properties> own = kraftControllerConfigs(info);
        if (own.size() != 1) {
            throw new RuntimeException("one controller, not " + own.size());
        }
        implementation = new ProcessQuorum(
            own.head(), metadataVersion(), TestInfoUtils.isTransactionV2Enabled(info), controllerListenerSecurityProtocol(),
            CollectionConverters.asJava(extraControllerSecurityProtocols()), this::addFormatterSettings);
    }

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        return implementation.createBroker(config, time, startup, threadNamePrefix);
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    public void shutdownKRaftController() {
        controllerServer().shutdown();
    }

    public void addFormatterSettings(Formatter formatter) {
    }

    public Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return CollectionConverters.asScala(java.util.List.of());
    }

    public KRaftQuorumImplementation newKRaftQuorum(TestInfo info, Properties overrides) {
        throw Marks.insides("QuorumTestHarness.newKRaftQuorum");
    }

    @AfterEach
    public void tearDown() {
        if (implementation != null) {
            implementation.shutdown();
        }
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
        TestUtils$.MODULE$.clearYammerMetrics();
        System.clearProperty("java.security.auth.login.config");
        javax.security.auth.login.Configuration.setConfiguration(null);
        faultHandler.maybeRethrowFirstException();
    }
}
