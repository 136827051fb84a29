"""Screen 6: a run description as a form; ``screen`` is where to begin reading."""
