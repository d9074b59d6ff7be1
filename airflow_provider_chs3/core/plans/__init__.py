"""Plan, adopt, forget and list periods."""
