"""What a release says of itself: one version everywhere, a citation file of CFF 1.2.0, a changelog."""

import re
import tomllib

import pytest
import yaml

import tfbigbatch
from tests.helpers.repository import read


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load(read("CITATION.cff"))


def test_the_citation_has_what_cff_asks_for(citation):
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert all(citation[name] for name in ("message", "title", "authors"))
    # Of the format, those that we use: a key that is not of the format makes the file invalid.
    known = "cff-version message type title authors version date-released license abstract keywords"
    assert set(citation) - {"repository-code"} == set(known.split())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", citation["date-released"])


def test_the_repositorys_address_is_one_or_nowhere(citation):
    """As long as there is none, the fields are left out: a made-up one would lead somewhere else."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    in_mkdocs = re.search(r"^repo_url: (\S+)$", read("docs/site/mkdocs.yml"), re.MULTILINE)
    found = {project.get("urls", {}).get("Repository"), citation.get("repository-code"), in_mkdocs and in_mkdocs[1]}
    assert len(found) == 1
    if found == {None}:
        assert "urls" not in project and "the address of this repository" in citation["message"]


def test_the_version_is_one(citation):
    assert re.fullmatch(r"\d+\.\d+\.\d+", tfbigbatch.__version__)
    assert citation["version"] == tfbigbatch.__version__
    newest = re.search(r"^## (\S+) \((\S+)\)$", read("CHANGELOG.md"), re.MULTILINE).groups()
    assert newest == (tfbigbatch.__version__, citation["date-released"])
