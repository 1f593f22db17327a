"""`python -m weft.cli`: the same as `weft`."""

from weft.cli import main

if __name__ == "__main__":
    main()
