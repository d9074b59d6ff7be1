"""Declare what users give: names, types, defaults, checks."""
