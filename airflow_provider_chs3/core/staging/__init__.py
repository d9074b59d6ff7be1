"""Staging tables: how they are made and dropped, and what becomes of those of dead attempts."""
