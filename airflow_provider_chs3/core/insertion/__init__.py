"""Insert a period's objects into staging."""
