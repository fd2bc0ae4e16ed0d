"""The same as `tfbigbatch launch-local`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("launch-local")
