"""Start a cluster of three brokers on this machine and use it: `cluster.py DIRECTORY [PORT]`.

The topic has three replicas, and acks=all waits for two of them: one broker may be lost without losing a record. The
cluster's settings and logs stay in the directory; the next start finds them.
"""

import subprocess
import sys

from kafka import KafkaProducer

directory = sys.argv[1]
port = sys.argv[2] if len(sys.argv) > 2 else "9092"
READY = "kwire: bootstrap servers: "

command = [sys.executable, "-m", "kwire", "cluster", "start", "--brokers", "3", "--data", directory, "--port", port]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as cluster:
    assert cluster.stdout is not None
    line = next(line for line in cluster.stdout if line.startswith(READY))
    bootstrap = line.removeprefix(READY).split(" ")[0].strip().split(",")
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    stored = producer.send("orders", b"order 1").get(timeout=30)
    print(f"partition {stored.partition} offset {stored.offset}, on {len(bootstrap)} brokers")
    producer.close()
    cluster.terminate()  # or Ctrl-C: all nodes stop cleanly
print(f"exit status {cluster.returncode}")
