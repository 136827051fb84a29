"""From problems to discussions: who speaks, what is read, and who samples."""
