"""The only room that knows Redis."""
