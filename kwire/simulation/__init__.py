"""Deterministic simulator for brokers, clusters and clients; docs/simulation.md describes its use.

Hosts, network, disks and time are simulated from one seed; the classes that run in them are the production classes.
"""

from kwire.simulation.brokers import SimulatedBroker
from kwire.simulation.client import WireClient
from kwire.simulation.clusters import ClusterBroker, SimulatedCluster
from kwire.simulation.device import Device
from kwire.simulation.hosts import Host, Process
from kwire.simulation.links import Speed, bad_weather
from kwire.simulation.network import Network
from kwire.simulation.random_source import SeededRandomSource
from kwire.simulation.simulation import Simulation, UnhandledError
from kwire.simulation.timeline import DeadlockError
from kwire.simulation.trace import Trace

__all__ = [
    "ClusterBroker",
    "DeadlockError",
    "Device",
    "Host",
    "Network",
    "Process",
    "SeededRandomSource",
    "SimulatedBroker",
    "SimulatedCluster",
    "Simulation",
    "Speed",
    "Trace",
    "UnhandledError",
    "WireClient",
    "bad_weather",
]
