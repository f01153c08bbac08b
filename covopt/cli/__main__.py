"""``python -m covopt.cli``."""

from covopt.cli import main

main()
