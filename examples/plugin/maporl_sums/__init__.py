"""What a package may add to maporl: one module per kind."""
