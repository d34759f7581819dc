"""Tools on the tested cluster and on an Apache Kafka cluster of the same shape, with placeholders for addresses."""

import re

from compat_tests.kafka_tools.comparing import Side, without_ids
from compat_tests.kafka_tools.tools import ToolBox

PLACE = re.compile(r"\{(BROKER|CONTROLLER|HOME|DIRECTORY)(\d)\}")
CONTROLLERS = ("--bootstrap-controller", "{CONTROLLERS}")
"""Arguments that make a tool connect to the controllers."""


def through(broker_id):
    """Return the arguments that make a tool connect to one broker."""
    return ("--bootstrap-server", f"{{BROKER{broker_id}}}")


class ClusterTools(ToolBox):
    """Tools that run against a cluster; arguments may contain {CONTROLLERS}, {BROKER1}, {HOME1}, {DIRECTORY1}."""

    def __init__(self, cluster, archive):
        super().__init__(cluster.bootstrap, archive)
        self.cluster = cluster

    def command(self, tool, arguments):
        filled = [self._filled(each) for each in arguments]
        if any(each.startswith("--bootstrap-") for each in filled):
            archive = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []
            return [*self._java(archive, tool), *filled]
        return super().command(tool, filled)

    def _filled(self, argument):
        text = argument.replace("{CONTROLLERS}", self.cluster.bootstrap_controllers)
        return PLACE.sub(self._place, text)

    def _place(self, match):
        node = self.cluster[int(match[2])]
        match match[1]:
            case "BROKER":
                return node.bootstrap
            case "CONTROLLER":
                return node.address
            case "HOME":
                return str(node.home)
            case _:
                return node.directory_id


class ClusterSide(Side):
    """Cluster with its tools."""

    def __init__(self, cluster, archive):
        self.name = cluster.name
        self.broker = self.cluster = cluster
        self.tools = ClusterTools(cluster, archive)

    def normal(self, text):
        return without_ids(self.cluster.normal(text))
