"""Format the nodes of one cluster with `kwire format`, in one process: `python -m compat_tests.kafka_tests.formatting`.

Arguments: the cluster's id, any number of `--feature=NAME=LEVEL`, and a properties file for each node. The file of the
only voter has the prefix `standalone:`, the file of a controller that joins has the prefix `joins:`.
"""

import sys

from kwire.cli.format_command import format_directories

QUORUM = {"standalone": ["--standalone"], "joins": ["--no-initial-controllers"]}


def main(cluster_id, *rest):
    features = [each for each in rest if each.startswith("--feature=")]
    for each in rest[len(features) :]:
        kind, _, path = each.rpartition(":")
        arguments = ["--config", path, "--cluster-id", cluster_id, *features, *QUORUM.get(kind, [])]
        format_directories.main(arguments, standalone_mode=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
