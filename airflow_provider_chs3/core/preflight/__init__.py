"""Check whether a load may start: the target, privileges, profiles, replicas."""
