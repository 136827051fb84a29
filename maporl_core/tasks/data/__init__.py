"""Rows of data sets: read from files or the hub, divided, kept and put in order."""
