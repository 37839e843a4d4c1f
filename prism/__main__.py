"""`python -m prism` is the same as `prism`."""

from prism.cli import main

if __name__ == "__main__":
    main()
