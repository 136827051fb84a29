"""The terminal app of maporl."""
