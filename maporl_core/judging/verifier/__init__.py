"""Verifiers: who scores messages, a file each; ``chosen`` makes the one of a run."""
