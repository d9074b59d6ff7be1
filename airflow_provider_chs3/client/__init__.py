"""Connect to ClickHouse, and perform the steps of workflows."""
