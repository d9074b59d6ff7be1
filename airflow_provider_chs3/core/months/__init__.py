"""Plan, adopt, forget and list months."""
