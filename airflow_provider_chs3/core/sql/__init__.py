"""Write SQL: quoting, and the settings with which an answer is complete under every profile."""
