"""The extra `models`: prepares images; trains by OpenCV's resize, BERT, and on the digits."""

import os
import subprocess
import sys

import numpy as np
import PIL.Image


def tfbigbatch(*arguments):
    subprocess.run([sys.executable, "-m", "tfbigbatch", *arguments], check=True)


for name in ("train/a", "train/b", "validation/a", "validation/b"):
    os.makedirs(f"images/{name}")
    for number in range(8):
        pixels = np.random.RandomState(number).randint(0, 255, (40, 50, 3)).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(f"images/{name}/{number}.png")
tfbigbatch("prepare-imagenet", "--source=images", "--output_dir=prepared")
tfbigbatch("train", "--quick", "--config=imagenet/resnet50_lars", "--config.data.resizer=opencv")
tfbigbatch("train", "--quick", "--config=bert/lamb")
tfbigbatch("train", "--config=digits/lstm_legw", "--config.duration=1 epochs", "--model_dir=run")
