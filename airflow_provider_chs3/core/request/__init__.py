"""Describe what a user asks of a load."""
