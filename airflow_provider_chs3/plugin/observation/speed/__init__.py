"""Speed of loads, and why some were slow."""
