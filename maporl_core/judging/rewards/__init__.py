"""Ways to pay messages."""
