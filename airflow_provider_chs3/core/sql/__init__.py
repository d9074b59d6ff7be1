"""Write SQL: quoting, and settings that make answers complete under every profile."""
