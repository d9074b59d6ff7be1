"""Tell where the objects are: keys, months, formats, listing."""
