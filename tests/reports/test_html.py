import base64
import html.parser

from tfbigbatch.reports import html as markup


class Reader(html.parser.HTMLParser):
    """What a browser would make of a page: its elements' attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.words = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data


def test_no_name_is_more_than_text():
    name = "<script>alert('&\"')</script>"
    pieces = [markup.paragraph(name), markup.table([[name], [name]]), markup.picture(b"png", name)]
    read = Reader(markup.document(name, [("", pieces), (name, pieces)]))
    assert "script" not in [tag for tag, _ in read.elements] and read.words.count(name) == 12
    assert [attributes["alt"] for tag, attributes in read.elements if tag == "img"] == [name, name]


def test_a_picture_is_within_the_page():
    ((_, attributes), *_) = Reader(markup.picture(b"\x89PNG", "a")).elements[1:]
    kind, data = attributes["src"].split(",")
    assert kind == "data:image/png;base64" and base64.b64decode(data) == b"\x89PNG"


def test_links_lead_to_sections():
    read = Reader(markup.document("a", [("", []), ("Runs", []), ("Curves", [])]))
    targets = [attributes["href"][1:] for tag, attributes in read.elements if tag == "a"]
    assert len(targets) == 2 and set(targets) <= {attributes.get("id") for _, attributes in read.elements}


def test_numbers_stand_to_the_right():
    read = Reader(markup.table([["a"], ["1,024"], ["98.44% ± 0.42%"], ["-3.5"], ["LEGW 2"], [""]]))
    assert [attributes.get("class") for tag, attributes in read.elements if tag == "td"] == ["number"] * 3 + [None] * 2
