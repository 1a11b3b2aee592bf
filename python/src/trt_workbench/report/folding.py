"""Long tables of a page are folded away, whichever template made them."""

from __future__ import annotations

import re

from trt_workbench.core.counts import counted

MOST_ROWS = 30
"""Of a table that is not folded."""
_TAGS = re.compile(r'<details\b|</details>|(?P<table>(?:<div class="scroll">)?<table\b)')
_ROW = re.compile(r"<tr\b[^>]*>\s*<td\b")
_END = re.compile(r"</table>(?:\s*</div>)?")


def folded(page: str) -> str:
    """Return a page, as its templates made it, with each table of many rows folded that is not already."""
    parts, done, depth = [], 0, 0
    for tag in _TAGS.finditer(page):
        if tag.start() < done:  # a cell's own
            continue
        if not tag["table"]:
            depth += 1 if tag[0].startswith("<d") else -1
            continue
        end = _END.search(page, tag.end()) if tag[0].startswith("<div") else None
        stop = end.end() if end else page.index("</table>", tag.end()) + len("</table>")
        table = page[tag.start() : stop]
        rows = len(_ROW.findall(table))
        if rows > MOST_ROWS and not depth:
            table = f"<details><summary>{counted(rows, 'row')}</summary>\n{table}\n</details>"
        parts += [page[done : tag.start()], table]
        done = stop
    return "".join([*parts, page[done:]])
