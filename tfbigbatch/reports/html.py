"""The pieces of a page that needs nothing but itself: escaped texts, pictures within, its style on top."""

import base64
import html
import re

_STYLE = """
body { margin: 0 auto; padding: 1rem; max-width: 75rem; font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a;
  background: #fff; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
nav a { margin-right: 1rem; white-space: nowrap; } a { color: #0072b2; } p { max-width: 48rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { white-space: nowrap; border-bottom: 2px solid #888; } td { overflow-wrap: break-word; max-width: 24rem; }
td:first-child { min-width: 9rem; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; overflow-x: auto; } figcaption { font-size: .875rem; color: #444; }
img { max-width: 100%; min-width: 38rem; height: auto; }
"""
# The page asks for nothing from elsewhere, and no browser would get it.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title, sections):
    """A whole page.

    Args:
      title: text.
      sections: list of (heading, list of pieces), of which the first stands below the title, without a heading.
    """
    names = [f"s{number}" for number in range(len(sections))]
    links = "\n".join(f'<a href="#{name}">{text(head)}</a>' for name, (head, _) in zip(names, sections) if head)
    body = "\n".join(
        f'<section id="{name}">\n{f"<h2>{text(head)}</h2>" if head else ""}\n' + "\n".join(pieces) + "\n</section>"
        for name, (head, pieces) in zip(names, sections)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{text(title)}</h1>\n<nav>{links}</nav>\n{body}\n</body>\n</html>\n"
    )


def text(words):
    """Any words, with no character that means something to a browser."""
    return html.escape(str(words), quote=True)


def paragraph(words):
    return f"<p>{text(words)}</p>"


def table(lines):
    """A table of texts: the headings, and a list a row. Numbers are set to the right."""
    heads = "".join(f'<th scope="col">{text(cell)}</th>' for cell in lines[0])
    rows = "\n".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines[1:])
    return f'<div class="wide"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def picture(png, caption):
    """A PNG, as bytes, within the page."""
    data = base64.b64encode(png).decode("ascii")
    # The caption stands for the picture too where it cannot be seen.
    return (
        f'<figure><img alt="{text(caption)}" src="data:image/png;base64,{data}">\n'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def _cell(cell):
    number = re.fullmatch(r"[-+]?[\d.,]+%?( ± [\d.,]+%?)?", cell)
    return f'<td class="number">{text(cell)}</td>' if number else f"<td>{text(cell)}</td>"
