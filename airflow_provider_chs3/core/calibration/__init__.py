"""Find the best settings for a table by loading samples."""
