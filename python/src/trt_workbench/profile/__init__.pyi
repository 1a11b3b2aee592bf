from .document import read_records as read_records
