"""Quick runs by their command, on data of a user's size."""

import pytest

from tests.helpers.datasets import image_sets
from tests.helpers.preloaded import tfbigbatch


@pytest.mark.slow  # A minute: a residual network is traced.
def test_resnet_50_at_batch_32k_trains_on_36_pictures_at_the_first_try(tmp_path):
    pictures = {
        f"class{number % 12}/{number}.jpg": image_sets.encoded(image_sets.picture(number, (80, 60)))
        for number in range(36)
    }
    source = image_sets.write_folder(tmp_path / "pictures", pictures)
    prepared = tfbigbatch("prepare-imagenet", f"--source={source}", f"--output_dir={tmp_path}/data")
    assert prepared.returncode == 0, prepared.stderr
    command = ["train", "--config=imagenet/resnet50_lars:32k", "--quick"]
    command += [f"--model_dir={tmp_path}/run", f"--data_dir={tmp_path}/data"]
    first = tfbigbatch(*command)
    assert first.returncode == 0, first.stderr
    assert "batch_size: 32768 -> 4" in first.stdout and "done       30 steps" in first.stdout
    again = tfbigbatch(*command)
    assert again.returncode == 0 and "holds a finished run (30 steps)" in again.stdout
