"""Triggers: wait in the triggerer while tasks are deferred."""
