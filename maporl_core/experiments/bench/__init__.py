"""Benchmarks: each measures one thing a person waits for."""
