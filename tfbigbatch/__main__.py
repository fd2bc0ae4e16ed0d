"""`python -m tfbigbatch`, the same as the console script `tfbigbatch`."""

from tfbigbatch.cli.main import main

main()
