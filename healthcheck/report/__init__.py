"""The report in the forms that people and programs read: text, JSON, Nagios, Prometheus."""
