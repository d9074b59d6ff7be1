"""When the merges of a month are healthy, and OPTIMIZE of closed months."""
