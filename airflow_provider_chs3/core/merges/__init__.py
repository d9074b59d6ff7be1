"""Judge the health of a month's merges, and OPTIMIZE closed months."""
