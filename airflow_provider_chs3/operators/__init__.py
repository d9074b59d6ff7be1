"""Operators; the transfers among them are in `transfers`, as in Airflow's own providers."""
