"""Suggest a table for a month's files, each choice with its reason; create it, or add columns that came later."""
