#!/usr/bin/env python3
"""Check that the relative links of Markdown files lead somewhere.

    scripts/check-links.py FOLDER...    all .md files in them, and below

A link must name a file below the folder that was given, and a heading that this file has.
Where docs/SUMMARY.md lists the pages of a site (scripts/site.sh), it must list every page in docs/.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")
DEFINITION = re.compile(r"^\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
# Folders of a clone with build results or downloads.
SKIPPED = {".git", "build", "target", "node_modules"}


def anchors(path):
    text = FENCE.sub("", path.read_text())
    found = set(ANCHOR.findall(text))
    counts = {}
    for heading in HEADING.findall(text):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        count = counts.get(slug, 0)
        counts[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def problem(root, path, link):
    """What is wrong with a link, or None."""
    target, _, anchor = unquote(link).partition("#")
    file = (path.parent / target).resolve() if target else path.resolve()
    if not file.is_relative_to(root):
        return "leads out of the folder"
    if not file.exists():
        return "there is no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "there is no such heading"
    return None


def check(root):
    count = 0
    problems = []
    for path in sorted(root.rglob("*.md")):
        if SKIPPED & set(path.relative_to(root).parts):
            continue
        text = CODE.sub("", FENCE.sub("", path.read_text()))
        for link in LINK.findall(text) + DEFINITION.findall(text):
            if re.match(r"[a-z][a-z+.-]*:", link):
                continue
            count += 1
            if wrong := problem(root, path, link):
                problems.append(f"{path.relative_to(root)}: {link}: {wrong}")
    return count, problems


def unlisted(root):
    """Pages in docs/ that are not in its SUMMARY.md: a site would not have them."""
    summary = root / "docs/SUMMARY.md"
    if not summary.exists():
        return []
    listed = {(summary.parent / link).resolve() for link in LINK.findall(summary.read_text())}
    pages = set(summary.parent.rglob("*.md")) - {summary}
    return [
        f"docs/SUMMARY.md: {page.relative_to(root)} is not in it"
        for page in sorted(pages)
        if page not in listed
    ]


def main():
    failed = False
    for folder in sys.argv[1:] or ["."]:
        count, problems = check(Path(folder).resolve())
        problems += unlisted(Path(folder).resolve())
        for text in problems:
            print(f"check-links.py: {text}", file=sys.stderr)
        if count == 0:
            print(f"check-links.py: {folder} has no links", file=sys.stderr)
        failed |= bool(problems) or count == 0
        print(f"check-links.py: {folder}: {count} links, {len(problems)} wrong")
    sys.exit(failed)


if __name__ == "__main__":
    main()
