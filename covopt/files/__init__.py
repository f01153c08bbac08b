"""Files that are written whole or not at all, JSON files read back, and what their content must look like."""

from covopt.files.formats import check_archive, parse_json, read_json, write_atomically, write_json

__all__ = ["check_archive", "parse_json", "read_json", "write_atomically", "write_json"]
