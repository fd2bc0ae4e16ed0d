"""The same as `tfbigbatch prepare-bert`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("prepare-bert")
