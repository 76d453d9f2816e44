"""The report of a sweep that people look at: one HTML file that needs nothing but a browser."""

from slurm_integration.fleet_report.page import render

__all__ = ["render"]
