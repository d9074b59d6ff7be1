"""Listings of many objects: pages read leanly, prefixes listed side by side."""
