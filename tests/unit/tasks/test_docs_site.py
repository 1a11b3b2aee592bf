"""The site of the documents: every page has a place in it, and links lead where they lead in the repository."""

import re
from pathlib import Path

import pytest

import docs_site

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
REPOSITORY = "https://example.org/repository/"


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    benchmarks = {page for page in pages if page.startswith("benchmarks/") and page.count("/") > 1}
    listed = re.findall(r"\S+\.md$", nav, re.MULTILINE)
    assert sorted(listed) == sorted(pages - benchmarks)


@pytest.mark.parametrize(
    ("folder", "link", "leads"),
    [
        ("guides", "decide.md", "decide.md"),
        ("guides", "../benchmarks/precision/", "../benchmarks/precision/README.md"),
        ("benchmarks", "../../tasks/benchmarks/", f"{REPOSITORY}tree/main/tasks/benchmarks"),
        ("guides", "../../CHANGELOG.md", f"{REPOSITORY}blob/main/CHANGELOG.md"),
        ("benchmarks/precision", "h200", f"{REPOSITORY}tree/main/docs/benchmarks/precision/h200"),
        ("benchmarks/precision", "h200/decision.json", "h200/decision.json"),
        ("guides", "missing.md", "missing.md"),
    ],
)
def test_links(folder: str, link: str, leads: str) -> None:
    assert docs_site.target(DOCS / folder, link, DOCS, REPOSITORY) == leads


def test_what_only_tests_read_is_dropped() -> None:
    page = type("Page", (), {"file": type("File", (), {"abs_src_path": str(DOCS / "guides" / "x.md")})})
    config = {"docs_dir": str(DOCS), "repo_url": REPOSITORY}
    text = docs_site.on_page_markdown(
        "```sh gpu network\ntrtw\n```\n[a](decide.md#time)\n[b](https://b.org)\n", page, config
    )
    assert text == "```sh\ntrtw\n```\n[a](decide.md#time)\n[b](https://b.org)\n"


def test_a_report_next_to_its_heading_is_linked(tmp_path: Path) -> None:
    (tmp_path / "gate.html").touch()
    page = type("Page", (), {"file": type("File", (), {"abs_src_path": str(tmp_path / "README.md")})})
    config = {"docs_dir": str(tmp_path), "repo_url": REPOSITORY}
    text = docs_site.on_page_markdown("## gate: in CI\n\n## verify: is it right\n", page, config)
    assert text == "## gate: in CI\n\n[Open this report](gate.html){ .md-button }\n\n## verify: is it right\n"


def test_a_page_does_not_ask_github_for_figures_of_the_repository() -> None:
    page = '<a href="https://github.com/o/r" class="md-source" data-md-component="source">'
    assert docs_site.on_post_page(page) == '<a href="https://github.com/o/r" class="md-source" >'
