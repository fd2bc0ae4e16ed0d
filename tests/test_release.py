"""What a release says of itself: one version everywhere, a citation file of CFF 1.2.0, a changelog."""

import os
import re

import pytest
import yaml

import tfbigbatch
from tests.helpers.preloaded import ROOT


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load(read("CITATION.cff"))


def test_the_citation_has_what_cff_asks_for(citation):
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert all(citation[name] for name in ("message", "title", "authors"))
    # Of the format, those that we use: a key that is not of the format makes the file invalid.
    known = "cff-version message type title authors version date-released license abstract keywords"
    assert set(citation) == set(known.split())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", citation["date-released"])


def test_the_version_is_one(citation):
    assert re.fullmatch(r"\d+\.\d+\.\d+", tfbigbatch.__version__)
    assert citation["version"] == tfbigbatch.__version__
    newest = re.search(r"^## (\S+) \((\S+)\)$", read("CHANGELOG.md"), re.MULTILINE).groups()
    assert newest == (tfbigbatch.__version__, citation["date-released"])
