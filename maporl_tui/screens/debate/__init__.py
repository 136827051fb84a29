"""Screen 3: what the agents say to each other; ``screen`` is where to begin reading."""
