"""Decide what happens to a period; discover, plan, resume and retry one attempt at a load."""
