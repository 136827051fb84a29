"""Screen 2: charts, agents, machine and log of one run; ``screen`` is where to begin reading."""
