"""Check everything that a load depends on: one module for each kind of check."""
