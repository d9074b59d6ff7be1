"""Record the objects that each period was loaded from."""
