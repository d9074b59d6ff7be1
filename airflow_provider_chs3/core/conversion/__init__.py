"""Convert a value to another type, and show that nothing of it was lost."""
