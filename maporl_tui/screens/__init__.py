"""A folder per screen with its layout in a ``.tcss`` file; here, what all six have in common."""
