"""Judge the health of a month's merges."""
