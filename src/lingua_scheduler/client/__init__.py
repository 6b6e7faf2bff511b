"""The Python client: a session as a program sees it, used by the command line, tests and benchmarks."""

from lingua_scheduler.client.connection import ClientOptions
from lingua_scheduler.client.errors import ConnectionLost, ServerUnreachable, SessionRefused
from lingua_scheduler.client.lasting import LastingClient
from lingua_scheduler.client.session import SessionClient

__all__ = [
    "ClientOptions",
    "ConnectionLost",
    "LastingClient",
    "ServerUnreachable",
    "SessionClient",
    "SessionRefused",
]
