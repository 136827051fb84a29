"""Estimators: rewards of messages to advantages of their tokens, one file each."""
