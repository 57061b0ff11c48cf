"""``python -m whereish``."""

from whereish.cli import main

main()
