"""Screen 5: two policies on the same questions; ``screen`` is where to begin reading."""
