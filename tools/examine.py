"""The same as `tfbigbatch examine`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("examine")
