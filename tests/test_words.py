"""One word, one meaning (docs/concepts/glossary.md): words that were given up do not come back."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
TEXTS = [
    *PAGES,
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "results" not in path.parts),
    *(path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in {".py", ".html", ".j2", ".toml", ".md"}),
]

# A word in quotes or backticks, before a colon or in a path names a field, a file or an option, and those stay.
IN_PROSE = r"(?<![\"'`\w./=<{{-])(?<!--format )(?:{})(?![\"'`\w/=>:}}-]|\.\w| =)"
INSTEAD = {
    r"books?": "ledger",
    r"chronicles?": "run report",
    r"correspondence": "transport",
    r"desks?": "member's agent",
    r"held rounds?|rounds held": "completed rounds",
    r"let(?:s|ting)?(?: \w+){0,2} go": "eliminated",
    r"one a (?:core|client|member|round|message)": "one per ...",
    r"parcels?": "message",
    r"shall": "must, or will",
    r"treasury": "ledger",
}


def faults(text: str) -> list[tuple[int, str, str]]:
    """Line number, what is written there, and what to write."""
    return sorted(
        (text.count("\n", 0, match.start()) + 1, match[0], instead)
        for words, instead in INSTEAD.items()
        for match in re.finditer(IN_PROSE.format(words), text, re.IGNORECASE)
    )


def test_abandoned_words_do_not_come_back():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {written!r}; write {instead!r}"
        for path in TEXTS
        for line, written, instead in faults(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_the_search_finds_words_and_skips_names():
    assert [line for line, *_ in faults("The book.\nIt lets every client go;\nA client shall not.")] == [1, 2, 3]
    assert not faults('fields["book"], `book`, book.db, notebooks, <book>, out/book/x, book="x"')
    assert len(TEXTS) > 200
