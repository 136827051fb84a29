"""Making and using a verifier outside a run: sampling its data, fitting it, scoring a file."""
