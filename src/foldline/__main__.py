"""`python -m foldline`: the same as `foldline`."""

from foldline._cli import main

if __name__ == "__main__":
    main()
