"""The page in Airflow's UI. Airflow imports `plugin.entry` everywhere, and the rest only in the API server."""
