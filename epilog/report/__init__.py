"""What people get of a failed job: report.json, report.txt, and a file for its owner."""
