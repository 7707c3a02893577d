#!/usr/bin/env python3
"""Check that the relative links of a site that mdBook has built lead somewhere.

    scripts/check-site.py FOLDER

mdBook makes its own anchors of headings and its own names of pages: that a link holds in the
Markdown file (scripts/check-links.py) does not show that it holds on the site.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Page(HTMLParser):
    """Where a page leads, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.links = []
        self.ids = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src") and value and not re.match(r"[a-z][a-z+.-]*:", value):
                self.links.append(value)


def problem(root, path, link, pages):
    """What is wrong with a link, or None."""
    target, _, anchor = unquote(link).partition("#")
    file = (path.parent / target).resolve() if target else path
    if not file.is_relative_to(root):
        return "leads out of the site"
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return "there is no such page"
    if anchor and file in pages and anchor not in pages[file].ids:
        return "there is no such heading"
    return None


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/check-site.py FOLDER")
    root = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    count = 0
    failed = False
    for path, page in pages.items():
        # Its links are relative to wherever a server shows it.
        if path.name == "404.html":
            continue
        for link in page.links:
            count += 1
            if wrong := problem(root, path, link, pages):
                print(f"check-site.py: {path.relative_to(root)}: {link}: {wrong}", file=sys.stderr)
                failed = True
    print(f"check-site.py: {len(pages)} pages, {count} links")
    sys.exit(failed or count == 0)


if __name__ == "__main__":
    main()
