"""Decide whether a period's new objects can be loaded alone, and add them to its published rows."""
