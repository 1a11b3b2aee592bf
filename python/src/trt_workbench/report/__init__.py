"""Tables, plots, HTML and Markdown from records and metrics."""
