"""Compute the settings of a load from nodes and data, each with its reason."""
