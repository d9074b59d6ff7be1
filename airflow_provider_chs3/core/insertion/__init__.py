"""Insert a month's objects into staging."""
