"""Replace the period with staging, and record it."""
