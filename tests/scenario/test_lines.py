"""Every key's line. In these documents each whole number is the line it stands on: the text is its own oracle."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.scenario.lines import Place, key_places


def leaves(value, path=()):
    """(path, number) of all whole numbers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from leaves(inner, (*path, position))
    elif type(value) is int:
        yield path, value


def shape(value):
    """The tree of keys and positions of a document."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return {position: shape(inner) for position, inner in enumerate(value)}
    return {}


def shape_of_places(place: Place):
    return {step: shape_of_places(child) for step, child in place.children.items()}


def check(text):
    document, places = tomllib.loads(text), key_places(text)
    assert shape_of_places(places) == shape(document)
    numbers = list(leaves(document))
    for path, line in numbers:
        assert places.line_of(path) == line, path
    return len(numbers)


DOCUMENTS = {
    "plain": "a = 1\nb = 2\n\nc = 4",
    "comments": "# a = 9\na = 2 # b = 9\n  # [t]\nb = 4 # ]]\n",
    "tables": "a = 1\n[t]\na = 3\n[t.u]\na = 5\n[v . w]\na = 7\n",
    "arrays of tables": "[[c]]\na = 2\n[[c]]\n\na = 5\n[c.d]\na = 7\n[[c.e]]\na = 9\n[[c.e]]\na = 11\n[[c]]\na = 13\n",
    "dotted keys": "a.b.c = 1\na.b.d = 2\n[t]\na . b = 4\na.\"c d\".'e.f' = 5\n",
    "quoted keys": '"a" = 1\n\'b\' = 2\n"a.b" = 3\n"" = 4\n"q\\"q" = 5\n"\\u00e9=[" = 6\n\'#\' = 7\n["t.u".v]\na = 9\n',
    "inline tables": 'a = { b = 1, c = { d = 1, "e f" = 1 }, g.h = 1 }\ni = {}\nj = 3\n',
    "arrays": "a = [1, 1, 1,]\nb = [\n  3, # one ]\n  4,\n\n  [6, [6,\n  7]],\n]\nc = 9\nd = []\ne = [[]]\nf = 12\n",
    "tables in arrays": "c = [\n  { a = 2, b = 2 },\n  # { a = 9\n  { a = 4, b = [\n    5,\n    6,\n  ] },\n]\nd = 9\n",
    "multi-line strings": 'a = """\nb = 9\n[t]\n"""\nc = 5\n',
    "quotes at the end of a string": 'a = """x""""\nb = 2\nc = """\n"y"""""\nd = 5\n',
    "escaped quotes": 'a = """\\"""\n\\\\"""\nb = 3\nc = "\\"#"\nd = 5\ne = "\\\\"\nf = 7\n',
    "literal strings": "a = '''\nb = 9 \\'''\nc = 3\nd = '''it''s'''''\ne = 5\nf = '\\'\ng = 7\nh = '''''x'''\ni = 9\n",
    "multi-line strings in arrays": "a = [ \"\"\"\n]\n\"\"\", 3, { b = '''\n}\n''', c = 5 } ]\nd = 6\n",
    "other values": "a = 1979-05-27 07:32:00 # x\nb = 2\nc = +inf\nd = 4\ne = [ 07:32:00, true ]\nf = 6\n",
    "line ends of Windows": 'a = 1\r\n\r\n[t] # x\r\nb = 4\r\nc = """\r\n\r\n"""\r\nd = [\r\n  9,\r\n]\r\ne = 11\r\n',
    "tabs": "\ta\t=\t1\n[\tt\t]\n\tb\t=\t3\t\n",
    "no line end at the end": "a = 1\n[t]\nb = 3",
    "a table after its inner table": "[a.b]\nc = 2\n[a]\nd = 4\n",
    "headers in any order": "[[c]]\na = 2\n[t]\na = 4\n[[c]]\na = 6\n[c.d.e]\na = 8\n",
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_keys_are_on_their_lines(text):
    assert check(text)


def test_tables_are_on_the_lines_of_their_headers():
    places = key_places("x = 1\n[a.b]\n[[c]]\n[[c]]\n[c.d]\n[a]\nd.e = 2\n")
    lines = {path: places.line_of(path) for path in [("a", "b"), ("c",), ("c", 0), ("c", 1), ("c", 1, "d"), ("a", "d")]}
    assert lines == {("a", "b"): 2, ("c",): 3, ("c", 0): 3, ("c", 1): 4, ("c", 1, "d"): 5, ("a", "d"): 7}
    assert places.line_of(("a",)) == 6, "where it is declared, not where it was implied"


def test_a_missing_key_is_reported_on_the_line_of_its_table():
    places = key_places("[a]\nb = 2\n")
    assert places.line_of(("a", "missing")) == 1
    assert places.line_of(("missing",)) is None
    assert places.line_of(()) is None


@dataclass
class Writer:
    """Writes a document piece by piece and always knows the line it is on; every key has a name of its own."""

    draw: object
    newline: str
    pieces: list[str] = field(default_factory=list)
    line: int = 1
    used: int = 0

    def write(self, text):
        self.line += text.count("\n")
        self.pieces.append(text.replace("\n", self.newline))

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def key(self):
        self.used += 1
        plain = f"k{self.used}"
        return self.pick(plain, f'"{plain} = [\\"#"', f"'{plain}.x]]'", f'"\\u00fc{plain}"')

    def dotted(self):
        return self.pick(".", " . ").join(self.key() for _ in range(self.pick(1, 1, 1, 2, 3)))

    def blank(self):
        self.write(self.pick("", "", "\n", "  \n\n", "# k = 1 ]] }\n", "\t# '''\n"))

    def value(self, depth=0):
        kinds = ["number", "number", "string", "lines", "literal", "date"] + ["array", "inline"] * (depth < 3)
        match self.pick(*kinds):
            case "number":
                self.write(str(self.line))
            case "string":
                self.write(self.pick('"a # \\" ]"', "'}'", '""', "''", '"\\\\"'))
            case "lines":
                self.write(self.pick('"""\nk = 1\n[t]\n"""', '"""a\\\n  b""\\""""', '""""""', '"""x\n"""""'))
            case "literal":
                self.write(self.pick("'''\n[[x]]\n\\'''", "''''''", "'''a''b\n'''''"))
            case "date":
                self.write(self.pick("1979-05-27 07:32:00", "07:32:00", "1e-3", "-inf", "true"))
            case "array":
                self.write("[")
                for _ in range(self.pick(0, 1, 2, 3)):
                    self.write(self.pick("", " ", "\n", "\n  # ],\n "))
                    self.value(depth + 1)
                    self.write(self.pick(",", " ,", ",\n", "\n,"))
                self.write(self.pick("]", " ]", "\n]"))
            case "inline":
                self.write("{")
                for position in range(self.pick(0, 1, 2, 3)):
                    self.write(", " if position else " ")
                    self.pair(depth + 1)
                self.write(" }")

    def pair(self, depth=0):
        self.write(self.dotted() + self.pick("=", " = ", "\t=\t"))
        self.value(depth)

    def body(self):
        for _ in range(self.pick(0, 1, 2, 3)):
            self.blank()
            self.write(self.pick("", "  "))
            self.pair()
            self.write(self.pick("\n", " # k = 1\n"))

    def document(self):
        self.body()
        for _ in range(self.pick(0, 1, 2, 3)):
            self.blank()
            if self.pick(True, False):
                self.write(f"[{self.dotted()}]\n")
                self.body()
                continue
            name = self.key()
            for _ in range(self.pick(1, 2, 3)):
                self.write(f"[[{name}]] # x\n")
                self.body()
                if self.pick(True, False):
                    self.write(f"[ {name} . {self.key()} ]\n")
                    self.body()
        return "".join(self.pieces)


@given(st.data())
def test_generated_documents(data):
    writer = Writer(data.draw, newline=data.draw(st.sampled_from(["\n", "\r\n"])))
    check(writer.document())
