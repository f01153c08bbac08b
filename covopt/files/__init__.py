"""Files that are written whole or not at all, and JSON files read back."""

from covopt.files.atomic import write_atomically
from covopt.files.reading import read_json

__all__ = ["read_json", "write_atomically"]
