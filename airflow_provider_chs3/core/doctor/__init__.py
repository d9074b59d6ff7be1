"""Check everything that a load depends on, a module for each kind of check."""
