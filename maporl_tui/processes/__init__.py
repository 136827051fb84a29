"""Processes beside the app: trainers, workers, what the machine does, and leaving."""
