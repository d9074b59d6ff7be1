"""What was observed, as the JSON of the page's API."""
