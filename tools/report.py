"""The same as `tfbigbatch report`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("report")
