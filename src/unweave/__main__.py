"""Entry point of `python -m unweave`."""

from unweave.cli import main

main()
