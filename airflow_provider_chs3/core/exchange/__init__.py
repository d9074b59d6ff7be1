"""Unload periods to objects, and land the messages of topics as objects."""
