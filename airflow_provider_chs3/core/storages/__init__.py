"""Each storage: how its objects are named, and what reads them."""
