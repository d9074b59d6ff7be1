"""Discover, plan, resume and retry one attempt at a load."""
