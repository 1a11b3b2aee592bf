def write_report(directory):
    return directory
