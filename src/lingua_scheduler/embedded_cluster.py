"""Redis processes of this machine that belong together, to prove that everything works on a cluster too."""

from __future__ import annotations

from typing import Any, Self

from lingua_scheduler.embedded import LOCALHOST, EmbeddedRedis, wait_for
from lingua_scheduler.errors import EmbeddedRedisError

SLOTS = 16384
"""Slots of a Redis Cluster."""

QUICK_REPLICATION = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
"""Settings of servers whose replicas shall follow without delay."""


def follow(replica: EmbeddedRedis, master: EmbeddedRedis) -> None:
    """Make one server the replica of another, outside a cluster, and wait until it has everything."""
    with replica.client() as client:
        client.replicaof(LOCALHOST, master.port)
    wait_for(lambda: _replicates(replica), "the replica does not follow")


def promote(replica: EmbeddedRedis) -> None:
    """Make a replica a master, outside a cluster."""
    with replica.client() as client:
        client.replicaof("NO", "ONE")


class EmbeddedCluster:
    """A real Redis Cluster of local processes, with no or one replica for each master."""

    def __init__(self, *, masters: int = 3, replicas: int = 0, node_timeout_ms: int = 1000) -> None:
        if replicas not in (0, masters):
            raise EmbeddedRedisError("a cluster has no replicas, or one for each master")
        settings = {
            **QUICK_REPLICATION,
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(node_timeout_ms),
            "cluster-require-full-coverage": "no",
            "cluster-allow-replica-migration": "no",
        }
        self.nodes = [EmbeddedRedis(port=0, settings=settings) for _ in range(masters + replicas)]
        self.masters = self.nodes[:masters]  # who has the slots, in the order of the slots
        self.replicas = self.nodes[masters:]  # in the order of the masters they follow
        self._ids: dict[EmbeddedRedis, str] = {}

    @property
    def url(self) -> str:
        """Every node's address, for `StoreOptions` in cluster mode."""
        return ",".join(node.url for node in self.nodes if node.url)

    def start(self) -> Self:
        """Start every node, join them and wait until all slots are served."""
        try:
            for node in self.nodes:
                node.start()
            self._join()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every node, at once: there is nothing to save."""
        for node in self.nodes:
            node.kill()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def wait_for_promotion(self, dead: EmbeddedRedis) -> EmbeddedRedis:
        """Wait until the replica of a killed master has its slots and everybody knows; return the replica."""
        number = self.masters.index(dead)
        heir = self.replicas[number]
        port = heir.port or 0
        living = [node for node in self.nodes if node.alive]
        wait_for(lambda: all(_sees_master(node, port) for node in living), "nobody took the slots over")
        self.masters[number], self.replicas[number] = heir, dead
        return heir

    def revive(self, dead: EmbeddedRedis) -> None:
        """Bring a killed node back, empty, as the replica of the master that has its slots now."""
        master = self.masters[self.replicas.index(dead)]
        lost = self._ids.pop(dead)
        dead.start()
        for node in self.nodes:
            if node is not dead:
                _cluster(node, "FORGET", lost)
        self._ids[dead] = _cluster(dead, "MYID").decode()
        _cluster(dead, "MEET", LOCALHOST, master.port)
        wait_for(lambda: all(self._knows_all(node) for node in self.nodes), "the node is not taken back")
        self._replicate(dead, master)

    def _join(self) -> None:
        count = len(self.masters)
        bounds = [number * SLOTS // count for number in range(count + 1)]
        for epoch, node in enumerate(self.nodes, 1):
            _cluster(node, "SET-CONFIG-EPOCH", epoch)
            _cluster(node, "MEET", LOCALHOST, self.nodes[0].port)
            self._ids[node] = _cluster(node, "MYID").decode()
        for number, node in enumerate(self.masters):
            _cluster(node, "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        wait_for(lambda: all(self._knows_all(node) for node in self.nodes), "the cluster does not form")
        for master, replica in zip(self.masters, self.replicas, strict=False):
            self._replicate(replica, master)

    def _replicate(self, replica: EmbeddedRedis, master: EmbeddedRedis) -> None:
        _cluster(replica, "REPLICATE", self._ids[master])
        wait_for(lambda: _replicates(replica), "the replica does not follow")

    def _knows_all(self, node: EmbeddedRedis) -> bool:
        facts = dict(line.split(":") for line in _cluster(node, "INFO").decode().splitlines() if ":" in line)
        known = int(facts["cluster_known_nodes"]) == len(self.nodes)
        return known and facts["cluster_state"] == "ok" and facts["cluster_slots_ok"] == str(SLOTS)


def _sees_master(node: EmbeddedRedis, port: int) -> bool:
    return any(primary[1] == port for _, _, primary, *_ in _cluster(node, "SLOTS"))


def _cluster(node: EmbeddedRedis, *args: Any) -> Any:
    with node.client() as client:
        connection = client.connection_pool.get_connection()
        try:
            connection.send_command("CLUSTER", *args)
            return connection.read_response()
        finally:
            connection.disconnect()


def _replicates(node: EmbeddedRedis) -> bool:
    with node.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")
