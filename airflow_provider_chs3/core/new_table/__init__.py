"""Suggest a table for a period's files, each choice with its reason; create it, or add columns that came later."""
