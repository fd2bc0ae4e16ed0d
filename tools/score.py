"""The same as `tfbigbatch score`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("score")
