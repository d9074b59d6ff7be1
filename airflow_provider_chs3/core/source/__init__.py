"""Where the objects are: keys, months, formats, and how they are listed."""
