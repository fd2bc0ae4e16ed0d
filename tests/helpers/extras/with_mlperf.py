"""The extra `mlperf`: writes a log by the rules of MLPerf."""

import subprocess
import sys

command = [sys.executable, "-m", "tfbigbatch", "train", "--quick", "--config=imagenet/resnet50_lars"]
subprocess.run([*command, "--mlperf_log=log.txt"], check=True)
with open("log.txt", encoding="utf-8") as file:
    assert ":::MLLOG" in file.read()
