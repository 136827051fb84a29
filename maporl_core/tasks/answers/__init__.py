"""Answers in messages: where they stand, what they are worth, whether two are the same."""
