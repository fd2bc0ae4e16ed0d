"""The same as `tfbigbatch scale`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("scale")
