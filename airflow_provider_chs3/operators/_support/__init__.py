"""Code that several operators share."""
