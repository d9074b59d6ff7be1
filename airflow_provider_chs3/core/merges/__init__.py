"""Tell when the merges of a month are healthy, and OPTIMIZE closed months."""
