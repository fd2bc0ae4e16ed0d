"""The same as `tfbigbatch tpu-table`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("tpu-table")
