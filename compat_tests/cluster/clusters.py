"""Clusters of one kind of node: three combined nodes, or a controller with two brokers."""

from concurrent.futures import ThreadPoolExecutor

from confluent_kafka.admin import AdminClient

from compat_tests.harness.ports import HOST
from compat_tests.harness.process import SETTINGS
from compat_tests.harness.readiness import is_ready
from compat_tests.harness.waiting import eventually
from compat_tests.quorum.nodes import Nodes, initial_controllers

START_SECONDS = 90.0
SHAPES = {"combined": ("broker,controller",) * 3, "separate": ("controller", "broker", "broker")}
"""Roles of nodes 1, 2 and 3."""
FAST = {
    # A killed broker may register again only after its old session has expired: 9 s by default.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


class Cluster:
    """Nodes that form a cluster; all stop together."""

    def __init__(self, kind, directory, roles, **settings):
        """Create the nodes. `kind` is the kind of all nodes, or a list with one kind for each."""
        kinds = kind if isinstance(kind, tuple) else (kind,) * len(roles)
        self.name = kinds[0]
        self.directory = directory
        self.format_options = ()
        """Options of the format command of each node, in addition to those for the voters."""
        self.client_settings = {}
        """Settings by which confluent-kafka connects to the brokers."""
        self._nodes = Nodes(directory)
        for each, its_roles in zip(kinds, roles, strict=True):
            self._nodes.add(each, its_roles, **{**SETTINGS, **FAST, **settings})

    def __getitem__(self, node_id):
        return self._nodes.all[node_id - 1]

    @property
    def nodes(self):
        return self._nodes.all

    @property
    def brokers(self):
        return [node for node in self.nodes if "broker" in node.roles]

    @property
    def controllers(self):
        return [node for node in self.nodes if "controller" in node.roles]

    @property
    def bootstrap(self):
        return ",".join(node.bootstrap for node in self.brokers)

    @property
    def bootstrap_controllers(self):
        return ",".join(node.address for node in self.controllers)

    def start(self):
        """Start all nodes and wait until every broker lists all brokers."""
        self._nodes.write()
        with ThreadPoolExecutor(2) as pool:
            for formatted in [pool.submit(node.format, *self._options(node)) for node in self.nodes]:
                formatted.result()
        for node in self.nodes:
            node.start()
        self.await_brokers()

    def _options(self, node):
        if "controller" not in node.roles:
            return self.format_options
        return ("--initial-controllers", initial_controllers(self.controllers), *self.format_options)

    def await_brokers(self, *, without=()):
        """Wait until each running broker returns all running brokers in its metadata."""
        running = [node for node in self.brokers if node.node_id not in without]
        wanted = {node.node_id for node in running}
        for node in running:
            eventually(lambda node=node: self._answers(node, wanted), f"{node.bootstrap} knows {wanted}", START_SECONDS)

    def admin(self, node):
        """Return a client of one broker."""
        return AdminClient({"bootstrap.servers": node.bootstrap, "logger": None} | self.client_settings)

    def is_ready(self, node):
        return is_ready((HOST, node.client_port))

    def _answers(self, node, wanted):
        if node.process is None or node.process.poll() is not None:
            raise SystemExit(f"node {node.node_id} ended:\n{node.output()[-4000:]}")
        return self.is_ready(node) and set(self.admin(node).list_topics(timeout=5).brokers) == wanted

    def normal(self, text):
        """Replace the parts that differ from run to run: addresses and directories."""
        for node in self.nodes:
            text = text.replace(str(node.home), f"HOME{node.node_id}")
            text = text.replace(str(node.client_port), f"PORT{node.node_id}")
            text = text.replace(str(node.port), f"CONTROLLER-PORT{node.node_id}")
        return text

    def end(self):
        self._nodes.end()
