"""How the app looks: themes, keys, and what its user set for good."""
