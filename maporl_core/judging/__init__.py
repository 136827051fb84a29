"""From discussions to what they are worth: scores, rewards, figures."""
