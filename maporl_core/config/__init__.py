"""A run description: its schema, and how it is read, overridden and complained about."""
