"""Declare arguments: names, types, defaults, checks."""
