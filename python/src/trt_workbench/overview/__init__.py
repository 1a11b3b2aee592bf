"""`report`: the reports of run directories made again, and one page over several.

In: `report.write_overview` of run directories. Out: report.html and report.md.
"""
