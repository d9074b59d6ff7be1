"""The page in Airflow's UI. `plugin.entry` is what Airflow imports everywhere; the rest only the API server does."""
