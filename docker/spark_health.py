"""Health check of a container with the pipeline: every query must be active, according to its metrics.

python spark_health.py 127.0.0.1:8000
"""

import sys
from urllib.request import urlopen

ACTIVE = "kwire_spark_query_active{"


def main() -> int:
    try:
        with urlopen(f"http://{sys.argv[1]}/metrics", timeout=4) as answer:
            lines = answer.read().decode().splitlines()
    except OSError as error:
        print(error)
        return 1
    queries = [line for line in lines if line.startswith(ACTIVE)]
    print("\n".join(queries) or "no query has started")
    return 0 if queries and all(line.endswith(" 1.0") for line in queries) else 1


if __name__ == "__main__":
    sys.exit(main())
