"""``maporl-tui``: says that the app is on its way, and what shows a run meanwhile."""

from __future__ import annotations

import sys

MESSAGE = (
    "maporl-tui is on its way; meanwhile these show a run: maporl runs list, maporl runs show RUN, "
    "maporl debate --both --run RUN"
)


def main() -> int:
    """Print one line on stderr; exit code 2."""
    sys.stderr.write(MESSAGE + "\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
