"""Write a period of a table back to objects, and prove that they hold its rows."""
