"""The page of a run report: its content, computed from the records. The markup is in templates/run_report.html."""
