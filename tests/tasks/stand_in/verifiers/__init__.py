"""A stand-in for the package ``verifiers`` 0.4: only what maporl reads of it."""
