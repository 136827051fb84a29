"""Little arithmetic programs, evaluated without running them."""
