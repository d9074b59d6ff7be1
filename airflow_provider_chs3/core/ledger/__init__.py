"""Record months, look them up, and tell whether a month is still as recorded."""
