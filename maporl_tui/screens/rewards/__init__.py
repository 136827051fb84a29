"""Screen 4: why every message was paid what it was; ``screen`` is where to begin reading."""
