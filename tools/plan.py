"""The same as `tfbigbatch plan`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("plan")
