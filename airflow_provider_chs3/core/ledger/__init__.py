"""Record periods and their objects, and decide whether a period is still as recorded."""
