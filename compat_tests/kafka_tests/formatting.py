"""Format the nodes of one cluster by `kwire format`, in one process: `python -m compat_tests.kafka_tests.formatting`.

Arguments: the cluster's id, `--feature=NAME=LEVEL` as often as wanted, then a properties file for each node, with
`standalone:` before that of the only voter and `joins:` before that of a controller that joins.
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
