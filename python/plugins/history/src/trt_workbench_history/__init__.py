"""Many runs of one folder over dates or commits: what `report FOLDER` writes."""
