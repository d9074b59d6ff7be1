"""Find the objects: keys, periods, formats, listing."""
