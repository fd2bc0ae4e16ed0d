"""The same as `tfbigbatch export`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("export")
