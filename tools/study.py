"""The same as `tfbigbatch study`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("study")
