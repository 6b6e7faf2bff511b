"""Lingua Scheduler: the central server of real-time speech translation."""

__version__ = "0.1.0"
