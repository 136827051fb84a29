"""Numbers and text as characters of a terminal; nothing is read here and no widget touched."""
