"""`report`: reports of run directories made again, and one page over several."""
