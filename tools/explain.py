"""The same as `tfbigbatch explain`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("explain")
