"""Judge the health of merges, and optimize closed periods."""
