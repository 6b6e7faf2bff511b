"""Benchmarks as a product: each measures one thing on real parts and prints a table."""
