"""Create and drop staging tables, also those of dead attempts."""
