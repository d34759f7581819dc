package kwire.tests;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/** The authorizer of one node: its entries are read and changed by requests to the node. */
final class RemoteAuthorizer implements Authorizer {
    private final Nodes nodes;
    private final Node node;

    RemoteAuthorizer(Nodes nodes, Node node) {
        this.nodes = nodes;
        this.node = node;
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        try (Admin admin = admin()) {
            return result(admin.describeAcls(filter).values());
        }
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
        AuthorizableRequestContext context, List<AclBinding> bindings
    ) {
        try (Admin admin = admin()) {
            Map<AclBinding, KafkaFuture<Void>> created = admin.createAcls(bindings).values();
            return bindings.stream().map(each -> CompletableFuture.completedFuture(creation(created.get(each)))).toList();
        }
    }

    private static AclCreateResult creation(KafkaFuture<Void> created) {
        try {
            result(created);
            return AclCreateResult.SUCCESS;
        } catch (ApiException error) {
            return new AclCreateResult(error);
        }
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
        AuthorizableRequestContext context, List<AclBindingFilter> filters
    ) {
        try (Admin admin = admin()) {
            var deleted = admin.deleteAcls(filters).values();
            return filters.stream().map(each -> {
                Stream<AclBinding> bindings = result(deleted.get(each)).values().stream().map(one -> one.binding());
                return CompletableFuture.completedFuture(
                    new AclDeleteResult(bindings.map(AclDeleteResult.AclBindingDeleteResult::new).toList()));
            }).toList();
        }
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        throw Marks.insides("Authorizer.authorize");
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo serverInfo) {
        throw Marks.insides("Authorizer.start");
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }

    @Override
    public void close() {
    }

    /** A controller has the committed entries of the brokers, and no plaintext listener that a client may use. */
    private Admin admin() {
        Node asked = node.isBroker ? node : nodes.running().iterator().next();
        return Admin.create(Map.of("bootstrap.servers", "localhost:" + nodes.nodePort(asked)));
    }

    private static <T> T result(KafkaFuture<T> future) {
        try {
            return future.get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof ApiException cause) {
                throw cause;
            }
            throw new IllegalStateException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    /** Wait until all running brokers have exactly these entries. */
    static void await(Nodes nodes, AclBindingFilter filter, Collection<?> entries) throws InterruptedException {
        for (Node node : nodes.running()) {
            RemoteAuthorizer authorizer = new RemoteAuthorizer(nodes, node);
            Nodes.await(60, "broker " + node.id + " has the entries " + entries, () -> {
                Collection<AclBinding> found = (Collection<AclBinding>) authorizer.acls(filter);
                return found.size() == entries.size() && found.stream().allMatch(each -> entries.contains(each.entry()));
            });
        }
    }
}
