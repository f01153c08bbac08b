"""Check a built site without a connection: every link in it leads somewhere, nothing is loaded from elsewhere.

``python docs/check_links.py build/docs``
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the name of an element."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag in ("script", "img", "iframe", "source", "video") and "src" in found:
            self.loads.add(found["src"])
        elif (
            tag == "link" and "href" in found and found.get("rel") not in ("canonical", "author", "copyright")
        ):
            self.loads.add(found["href"])


def check(site: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere and each load from elsewhere."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    wrong = [] if pages else [f"{site} has no page"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for address in sorted(page.loads | page.links):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    wrong.append(f"{name} loads {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists():
                wrong.append(f"{name} links to {address}, which is not there")
            elif name.parts[0] == "_modules":
                continue  # Sphinx takes one of two pages for what a package imports
            elif anchor and target in pages and anchor not in pages[target].anchors:
                wrong.append(f"{name} links to {address}, which has no such place")
    return wrong


if __name__ == "__main__":
    found = check(Path(sys.argv[1]))
    print("\n".join(found) or "every link leads somewhere, nothing is loaded from elsewhere")
    sys.exit(bool(found))
