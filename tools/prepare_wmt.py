"""The same as `tfbigbatch prepare-wmt`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("prepare-wmt")
