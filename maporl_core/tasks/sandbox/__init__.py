"""What must not run in the trainer, in child processes under hard limits."""
