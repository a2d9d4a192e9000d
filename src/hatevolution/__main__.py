"""``python -m hatevolution``."""

from hatevolution.cli import main

if __name__ == "__main__":
    main()
