"""Load several small months with one INSERT, and publish each of them."""
