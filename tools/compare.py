"""The same as `tfbigbatch compare`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("compare")
