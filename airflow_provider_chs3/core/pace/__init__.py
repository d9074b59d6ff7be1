"""Estimate from a table's past loads what the next ones take."""
