"""From paid discussions to changed weights: rows, credit, losses, updates."""
