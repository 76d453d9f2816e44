"""Figures for node_exporter's textfile collector: what each stage saw last, and the fleet's.

On a node where `metrics_dir` is set, this is on the path of a healthy prolog: prometheus_client
takes longer to import than the whole prolog has.
"""
