"""Sensors: wait until merges have settled, or until a query returns rows."""
