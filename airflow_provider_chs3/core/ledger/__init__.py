"""What is recorded of each month, and whether the month is still as recorded."""
