"""One module per screen, its layout beside it in a ``.tcss`` file."""
