"""What several operators need."""
