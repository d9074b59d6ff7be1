"""Load periods: list, inspect, compare, plan, stage, insert, verify, publish, record."""
