"""Screen 1: every run below a folder; ``screen`` is where to begin reading."""
