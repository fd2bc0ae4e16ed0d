"""The same as `tfbigbatch prepare-imagenet`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("prepare-imagenet")
