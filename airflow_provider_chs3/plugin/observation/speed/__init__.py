"""How fast loads were, and why some were slow."""
