"""The extra `plot`: the page of a run."""

import subprocess
import sys


def tfbigbatch(*arguments):
    subprocess.run([sys.executable, "-m", "tfbigbatch", *arguments], check=True)


tfbigbatch("train", "--quick", "--config=imagenet/resnet50_lars", "--model_dir=run")
tfbigbatch("report", "run", "--results=page")
