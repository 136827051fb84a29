"""``python -m maporl_core``: the same as the ``maporl`` command (for ``accelerate launch -m``)."""

from __future__ import annotations

import sys

from maporl_core.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
