"""The same as `tfbigbatch tpu-check`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("tpu-check")
