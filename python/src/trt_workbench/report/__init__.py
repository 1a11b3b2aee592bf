"""What all reports share: the page, one style of plots, values on hover, and the table of reports (`reports.py`)."""
