"""A Redis Cluster of local processes, to prove that everything works on a cluster too."""

from __future__ import annotations

from typing import Any, Self

from lingua_scheduler.embedded import LOCALHOST, EmbeddedRedis, wait_for
from lingua_scheduler.errors import EmbeddedRedisError

SLOTS = 16384
"""Slots of a Redis Cluster."""


class EmbeddedCluster:
    """A real Redis Cluster of local processes, with no or one replica for each master."""

    def __init__(self, *, masters: int = 3, replicas: int = 0) -> None:
        if replicas not in (0, masters):
            raise EmbeddedRedisError("a cluster has no replicas, or one for each master")
        settings = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": "1000",
            "cluster-require-full-coverage": "no",
            "repl-diskless-sync-delay": "0",
        }
        self.nodes = [EmbeddedRedis(port=0, settings=settings) for _ in range(masters + replicas)]
        self.masters = self.nodes[:masters]
        self.replicas = self.nodes[masters:]

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

    def _join(self) -> None:
        count = len(self.masters)
        bounds = [number * SLOTS // count for number in range(count + 1)]
        for epoch, node in enumerate(self.nodes, 1):
            _cluster(node, "SET-CONFIG-EPOCH", epoch)
            _cluster(node, "MEET", LOCALHOST, self.nodes[0].port)
        for number, node in enumerate(self.masters):
            _cluster(node, "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        wait_for(lambda: all(self._knows_all(node) for node in self.nodes), "the cluster does not form")
        for master, replica in zip(self.masters, self.replicas, strict=False):
            _cluster(replica, "REPLICATE", _cluster(master, "MYID").decode())
        wait_for(lambda: all(map(_replicates, self.replicas)), "the replicas do not follow")

    def _knows_all(self, node: EmbeddedRedis) -> bool:
        facts = dict(line.split(":") for line in _cluster(node, "INFO").decode().splitlines() if ":" in line)
        known = int(facts["cluster_known_nodes"]) == len(self.nodes)
        return known and facts["cluster_state"] == "ok" and facts["cluster_slots_ok"] == str(SLOTS)


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
