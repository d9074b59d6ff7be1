"""Judge the health of a period's merges."""
