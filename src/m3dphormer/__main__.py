"""The command ``m3dphormer``, also as ``python -m m3dphormer``."""

import sys


def main() -> None:
    """Import the command, which takes a while, and run it; Ctrl-C is one line at any time."""
    try:
        from m3dphormer.cli import main as command

        command()
    except KeyboardInterrupt:
        print("m3dphormer: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
