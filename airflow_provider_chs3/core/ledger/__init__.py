"""Record months, look them up, and decide whether a month is still as recorded."""
