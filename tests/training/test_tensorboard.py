"""What the instruments write, as a real browser shows it: TensorBoard in a headless Chromium."""

import contextlib
import io
import os
import re
import subprocess
import sys
import urllib.parse

import matplotlib.image
import pytest

from tests.helpers.browser import Browser, chromium
from tests.training.test_instruments import ALL
from tfbigbatch import train
from tfbigbatch.instruments.event_log import CHARTS

# A card of the page of all tags, and what it draws in.
CARDS = {"scalar-card": "line-chart", "histogram-card": "tb-histogram"}
TAGS = {
    "noise_scale/critical_batch_size": "scalar-card",
    "sharpness/eigenvalue_1": "scalar-card",
    "layers/trust_ratio/logits/kernel": "scalar-card",
    "layers/weights/logits/kernel": "histogram-card",
}


@contextlib.contextmanager
def tensorboard(folder):
    """The address of a TensorBoard on a folder, seen by this machine alone, at a port that was free."""
    command = [sys.executable, "-m", "tensorboard.main", "--host=localhost", "--port=0", f"--logdir={folder}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in process.stderr:
            said += line
            address = re.search(r"http://localhost:\d+/", line)
            if address:
                yield address[0]
                return
        pytest.fail(f"TensorBoard ended: {said}")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def is_drawn(browser, box):
    """Whether a box of the page holds lines or areas in colour: its frame, ticks and words are black and gray."""
    if box is None or min(box[2:]) < 20:
        return False
    pixels = matplotlib.image.imread(io.BytesIO(browser.screenshot(box)))[..., :3]
    # The palest of TensorBoard's colours, slate, has its channels 0.14 apart.
    return ((pixels.max(axis=-1) - pixels.min(axis=-1)) > 0.1).sum() > 40


def keep(browser, height, name):
    """Writes the upper part of the page to the folder that TFBIGBATCH_SCREENSHOTS names, where it names one."""
    folder = os.environ.get("TFBIGBATCH_SCREENSHOTS")
    if folder:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(browser.screenshot((0, 0, 1300, height)))


def box_of(element):
    """JavaScript for [x, y, width, height] of an element; null where there is none."""
    return f"((of) => of && ((r) => [r.x, r.y, r.width, r.height])(of.getBoundingClientRect()))({element})"


def cards(browser):
    """Tag to (kind of its card, box that it draws in), of those that have something to draw in."""
    found = {}
    for kind, inner in CARDS.items():
        box = box_of(f"element.querySelector({inner!r})")
        for words, place in browser.each(kind, f"[element.textContent, {box}]"):
            tag = next((tag for tag in TAGS if tag in re.sub(r"\s", "", words)), None)
            if tag and place:
                found[tag] = (kind, place)
    return found


def charts(browser):
    """Title to the box of its drawing, of the page of custom scalars; a chart that is loading has none yet."""
    loader = 'element.shadowRoot.querySelector("tf-line-chart-data-loader")'
    pairs = browser.each(
        "tf-custom-scalar-multi-line-chart-card", f"[element.title, {loader}?.dataLoading, {box_of(loader)}]"
    )
    return {title: place for title, loading, place in pairs if place and not loading}


@pytest.mark.slow  # A run, TensorBoard and a browser.
@pytest.mark.skipif(chromium() is None, reason="no Chromium; see docs/development.md")
def test_a_browser_lists_and_draws_all_instruments(tmp_path, quick_config):
    config = quick_config(optimizer={"name": "lamb"}, accumulation_steps=2, duration="96 steps")
    config.instruments.update(ALL)
    # A chart of one line through two points TensorBoard leaves empty.
    config.instruments.sharpness.every = "12 steps"
    train.run(config, model_dir=str(tmp_path / "run"))
    with tensorboard(tmp_path / "run") as address, Browser(tmp_path / "profile", size=(1300, 3600)) as browser:
        browser.open(f"{address}?tagFilter={urllib.parse.quote('^(' + '|'.join(TAGS) + ')$')}#timeseries")
        browser.wait_for(lambda: set(cards(browser)) == set(TAGS), "a card for each tag")
        assert {tag: kind for tag, (kind, _) in cards(browser).items()} == TAGS
        for tag in TAGS:
            browser.wait_for(
                lambda tag=tag: is_drawn(browser, cards(browser).get(tag, (None, None))[1]), f"a drawing of {tag}"
            )
        keep(browser, 1380, "tensorboard_time_series.png")

        titles = {title for category in CHARTS.values() for title, _ in category}
        browser.open(f"{address}#custom_scalars")
        browser.wait_for(lambda: set(charts(browser)) == titles, "the charts of the layout")
        for title in titles:
            browser.wait_for(lambda title=title: is_drawn(browser, charts(browser).get(title)), f"a drawing of {title}")
        keep(browser, 2440, "tensorboard_custom_scalars.png")
