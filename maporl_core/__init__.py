"""Multi-agent post-co-training of language models: discussion, rewards, update, evaluation."""

__version__ = "0.1.0"
