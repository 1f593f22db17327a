"""`python -m foldline.cli`: the same as `foldline`."""

from foldline.cli import main

if __name__ == "__main__":
    main()
