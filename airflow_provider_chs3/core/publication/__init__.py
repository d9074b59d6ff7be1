"""Make staging the month, and record it."""
