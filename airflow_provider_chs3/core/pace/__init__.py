"""Estimate from a table's past loads how long the next ones take."""
