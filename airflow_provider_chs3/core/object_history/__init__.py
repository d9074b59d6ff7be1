"""Record the objects that each month was loaded from."""
