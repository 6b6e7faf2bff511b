"""Sockets: the only room that knows the WebSocket library."""
