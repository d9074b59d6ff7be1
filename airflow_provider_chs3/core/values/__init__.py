"""Plain frozen values and constants that cross rooms. They import the package's errors alone."""
