"""Write SQL: quoting, complete answers under every profile, casts that lose nothing."""
