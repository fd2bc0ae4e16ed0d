"""The same as `tfbigbatch tune`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("tune")
