"""Decide what becomes of a period; discover, plan, resume and retry one attempt at a load."""
