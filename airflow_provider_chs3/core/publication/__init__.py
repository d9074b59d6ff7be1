"""Make staging the period, and record it."""
