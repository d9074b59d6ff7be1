"""Tables of lakehouses, as seen from the worker."""
