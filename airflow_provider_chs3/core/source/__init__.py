"""Find the objects: keys, months, formats, listing."""
