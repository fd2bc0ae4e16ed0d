"""docs/cluster.md: its manifest and its script say what the trainer understands."""

import os
import re
import subprocess

import pytest
import yaml

from tests.helpers.repository import ROOT, read
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.errors import Preempted, WorkerLost

TEXT = read("docs", "cluster.md")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL).group(1)


@pytest.fixture
def job():
    (replicated,) = yaml.safe_load(block("yaml"))["spec"]["replicatedJobs"]
    return replicated["template"]["spec"]


def test_every_pod_of_the_manifest_finds_itself_in_the_cluster(job):
    (container,) = job["template"]["spec"]["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert list(variables) == ["INDEX", "TF_CONFIG"]  # Kubernetes expands what was defined before.
    for index in range(job["parallelism"]):
        text = variables["TF_CONFIG"]["value"].replace("$(INDEX)", str(index))
        workers, found = parse_tf_config(text)
        assert (len(workers), found) == (job["completions"], index)
        # As a JobSet names its pods: JOBSET-JOB-0-INDEX.JOBSET.
        assert f"resnet-worker-0-{index}.resnet:" in text
    config = next(part for part in container["command"] if part.startswith("--config="))
    assert os.path.isfile(os.path.join(ROOT, config.partition("=")[2].partition(":")[0]))


def test_what_would_fail_again_is_not_started_again(job):
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [1] and job["backoffLimit"] == 0
    assert f"| {Preempted.exit_code} |" in TEXT and f"| {WorkerLost.exit_code} |" in TEXT


def test_the_slurm_script_is_bash_and_knows_the_exit_codes():
    script = block("bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert f'"$code" -eq {Preempted.exit_code}' in script and f'"$code" -eq {WorkerLost.exit_code}' in script


def test_a_tpu_vm_starts_again_after_a_loss_and_nothing_else(tmp_path):
    script = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)[1].replace("/opt/tfbigbatch", str(tmp_path))
    trainer = tmp_path / ".venv" / "bin" / "python"
    trainer.parent.mkdir(parents=True)
    # Ends with the number in the first line of "codes", which it takes away.
    trainer.write_text('#!/bin/bash\ncode=$(head -n 1 codes)\nsed -i 1d codes\necho "$@" >> starts\nexit "$code"\n')
    trainer.chmod(0o755)
    for code in (0, 1, Preempted.exit_code):
        (tmp_path / "codes").write_text(f"{WorkerLost.exit_code}\n{WorkerLost.exit_code}\n{code}\n")
        (tmp_path / "starts").unlink(missing_ok=True)
        assert subprocess.run(["bash", "-c", script]).returncode == code
        starts = (tmp_path / "starts").read_text().splitlines()
        assert len(starts) == 3 and "-m tfbigbatch train --strategy=tpu --tpu=local" in starts[0]
    config = re.search(r"--config=(\S+)", script).group(1)
    assert os.path.isfile(os.path.join(ROOT, config.partition(":")[0]))
