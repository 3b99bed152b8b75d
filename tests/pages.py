"""HTML of results in notebooks, as a reader sees it."""

from html.parser import HTMLParser

__all__ = ["Page"]

ALLOWED = {"div", "p", "strong", "ul", "li", "table", "tr", "th", "td"}


class Page(HTMLParser):
    """A piece of HTML: its texts, and its tables as rows of cells.

    Tags and attributes other than those of plain pieces are refused, and so are tags that are not
    closed.
    """

    def __init__(self, source):
        super().__init__()
        self.texts, self.rows, self.tags = [], [], []
        self.feed(source)
        self.close()
        assert self.tags == []

    @property
    def text(self):
        return " ".join(self.texts)

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.tags.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.tags and self.tags[-1] in ("th", "td"):
            self.rows[-1][-1] += data
