"""Compute the settings of a load from the nodes and the data, each with its reason."""
