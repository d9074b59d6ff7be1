"""The page's API: observations as JSON."""
