"""``python -m m3dphormer`` is the command ``m3dphormer``."""

from m3dphormer.cli import main

if __name__ == "__main__":
    main()
