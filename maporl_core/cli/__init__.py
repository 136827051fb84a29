"""The ``maporl`` command: one file per command group.  Importing it loads no torch."""
