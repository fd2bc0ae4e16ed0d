"""The same as `tfbigbatch prepare-ptb`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("prepare-ptb")
