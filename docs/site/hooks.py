"""The site's tree is that of the repository, so that links between README.md, docs/, results/ and the experiments hold.

Pages are the Markdown files of these folders. Files that pages link to come along: Python as a page with its source,
a notebook as a page with its cells and their stored output, a folder as a page with the list of its files, anything
else as it is. `experiments` is a link to the package's folder,
where its pages are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebooks import markdown_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "examples/*.md",
    "results/**/*.md",
    "tfbigbatch/experiments/**/*.md",
)
ASSETS = ("docs/site/*.css",)
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replaces the files of docs/ by the pages of the repository and what they link to."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    for path in [*pages, *(path for pattern in ASSETS for path in ROOT.glob(pattern))]:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for page in pages:
        _add_linked(files, page.parent, page.read_text(encoding="utf-8"), config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to folders and to Python lead to the pages made of them; fences have one word; rows of tables are set."""
    here = (ROOT / page.file.src_uri).parent

    def rewritten(match: re.Match[str]) -> str:
        target = _target(here, match[2])
        link = match[2] if target is None else os.path.relpath(ROOT / _site_uri(target), here)
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    markdown = re.sub(r"^```python [^\n]+$", "```python", LINK.sub(rewritten, markdown), flags=re.MULTILINE)
    return re.sub(r"^\|.*$", lambda row: _set_row(row[0]), markdown, flags=re.MULTILINE)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The start page has the site's description as its title."""
    title = f"<title>{config.site_name} - {config.site_name}</title>"
    return output.replace(title, f"<title>{config.site_name}: {config.site_description}</title>")


def _set_row(row: str) -> str:
    """A row of a table without GitHub's escapes of a pipe within code, and without line breaks within a figure."""
    row = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row)
    return re.sub(r" ([±→]) ", "\u00a0\\1\u00a0", row)


def _target(folder: Path, link: str) -> Path | None:
    """The file or folder of the repository that a link leads to; None where there is none."""
    target = (folder / link).resolve()
    return target if target.exists() and target.is_relative_to(ROOT) else None


def _site_uri(target: Path) -> str:
    """Of the page or file of the site for a file or folder of the repository."""
    uri = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        return f"{uri}/{'README.md' if (target / 'README.md').exists() else 'index.md'}"
    return f"{uri}.md" if target.suffix in (".py", ".ipynb") else uri


def _add_linked(files: Files, folder: Path, markdown: str, config: MkDocsConfig) -> None:
    """Adds what a page in a folder links to."""
    for match in LINK.finditer(markdown):
        target = _target(folder, match[2])
        if target is not None:
            _add(files, target, config)


def _add(files: Files, target: Path, config: MkDocsConfig) -> None:
    """Adds a file, or a page made of it, where it is not there yet."""
    uri = _site_uri(target)
    if uri in files.src_uris:
        return
    title = f"# {target.relative_to(ROOT).as_posix()}\n\n"
    if target.is_dir():
        within = sorted(path for path in target.iterdir() if path.is_file())
        for path in within:
            _add(files, path, config)
        listed = "".join(f"- [{path.name}]({path.name})\n" for path in within)
        files.append(File.generated(config, uri, content=title + listed))
    elif target.suffix == ".py":
        source = target.read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=f"{title}````python\n{source}````\n"))
    elif target.suffix == ".ipynb":
        content = markdown_of(target.read_text(encoding="utf-8"))
        files.append(File.generated(config, uri, content=content))
        _add_linked(files, target.parent, content, config)
    else:
        files.append(File.generated(config, uri, abs_src_path=str(target)))
