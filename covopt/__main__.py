"""``python -m covopt``."""

from covopt.cli import main

if __name__ == "__main__":
    main()
