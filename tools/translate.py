"""The same as `tfbigbatch translate`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("translate")
