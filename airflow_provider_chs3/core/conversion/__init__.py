"""How a value becomes one of another type, and what shows that nothing of it was lost."""
