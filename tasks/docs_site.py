"""A hook of mkdocs: pages that are right in the repository are right on the site.

A link to a folder leads to its README.md, and one to what is outside of docs/, or to a folder without a README.md, to
the repository. Of a block's language the marks behind it ("sh gpu"), which only tests read, are dropped. Below a
heading such as "eval-coco: ..." a report next to the page, which the task report-pages puts there, is linked.
A reader's browser asks nobody but the site: the theme would have GitHub count the repository's stars.
"""

import os
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
_KIND = re.compile(r"^## ([a-z-]+): .*$", re.MULTILINE)
_MARKS = re.compile(r"^(```\w+) [a-z -]+$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return a page's Markdown as the site needs it."""
    folder, docs = Path(page.file.abs_src_path).parent, Path(config["docs_dir"])
    markdown = _KIND.sub(lambda heading: with_report(folder, heading), markdown)
    return _MARKS.sub(r"\1", _LINK.sub(lambda link: target(folder, link[1], docs, config["repo_url"]), markdown))


def on_post_page(output: str, **_: Any) -> str:
    """Return a page that only links the repository."""
    return output.replace('data-md-component="source"', "")


def with_report(folder: Path, heading: re.Match[str]) -> str:
    """Return a heading with a link to the report of its kind, where there is one."""
    page = folder / f"{heading[1]}.html"
    return f"{heading[0]}\n\n[Open this report]({page.name}){{ .md-button }}" if page.is_file() else heading[0]


def target(folder: Path, link: str, docs: Path, repository: str) -> str:
    """Return where a link of a page in `folder` leads on the site; one that leads nowhere is returned unchanged."""
    path = (folder / link).resolve()
    if (path / "README.md").is_file():
        path /= "README.md"
    if path.is_file() and path.is_relative_to(docs):
        return Path(os.path.relpath(path, folder)).as_posix()
    if not path.exists():
        return link
    kind = "tree" if path.is_dir() else "blob"
    return f"{repository.rstrip('/')}/{kind}/main/{path.relative_to(docs.parent).as_posix()}"
