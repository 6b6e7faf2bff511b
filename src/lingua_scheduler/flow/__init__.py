"""Asynchronous use cases: what happens to sessions, jobs and nodes. Knows no socket and no Redis."""
