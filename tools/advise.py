"""The same as `tfbigbatch advise`."""

from tfbigbatch.cli.main import main

if __name__ == "__main__":
    main("advise")
