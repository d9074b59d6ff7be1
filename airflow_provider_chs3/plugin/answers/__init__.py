"""The answers to the page's requests: what servers, objects and Airflow know, as JSON."""
