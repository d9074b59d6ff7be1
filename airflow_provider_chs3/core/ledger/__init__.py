"""Record periods, look them up, and decide whether a period is still as recorded."""
