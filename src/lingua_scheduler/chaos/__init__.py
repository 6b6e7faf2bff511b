"""Breaks a running system on purpose, under load, and checks from recorded histories what must still hold."""
