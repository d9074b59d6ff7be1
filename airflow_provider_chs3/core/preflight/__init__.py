"""Whether a load may start: the target, the rights, the profiles and the replicas."""
