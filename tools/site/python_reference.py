"""The pages of the Python reference: every public name, grouped as the package imports them.

The groups are read from the imports of src/whereish/__init__.py. mkdocstrings writes the text from
the docstrings, without importing Whereish.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from sources import ROOT, Sources

PACKAGE = ROOT / "src" / "whereish"
FOLDER = "reference/python"


def groups() -> dict[str, list[str]]:
    """Return the public names by the module of the package that they come from."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    public: list[str] = []
    homes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whereish"):
            for alias in node.names:
                module = (node.module or "").partition(".")[2] or alias.name
                homes.setdefault(alias.asname or alias.name, module)
    found: dict[str, list[str]] = defaultdict(list)
    for name in public:
        found[homes[name]].append(name)
    return {module: found[module] for module in sorted(found)}


def summary(module: str) -> str:
    """Return the first sentence of a module's docstring."""
    path = PACKAGE / module
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    first = " ".join(text.partition("\n\n")[0].split())
    words = re.sub(r"^[A-Z]+: ", "", first)  # the folder's word in the layout
    return words[:1].upper() + words[1:]


def page(module: str, names: list[str]) -> str:
    """Return the page of a group, for mkdocstrings."""
    if names == [module]:
        return (
            f"# whereish.{module}\n\n::: whereish.{module}\n    options:\n      heading_level: 2\n"
        )
    parts = [f"# whereish.{module}\n\n{summary(module)}\n"]
    parts += [f"::: whereish.{name}\n" for name in names]
    return "\n".join(parts)


def index() -> str:
    """Return the first page: all names with links."""
    lines = ["# Python", "", "`import whereish as wh` has these names.", ""]
    for module, names in groups().items():
        lines += [f"## {module}", "", summary(module), ""]
        anchor = "" if names == [module] else "#whereish."
        rest = [name if anchor else "" for name in names]
        found = zip(names, rest, strict=True)
        lines += [", ".join(f"[`{name}`]({module}.md{anchor}{end})" for name, end in found), ""]
    return "\n".join(lines)


def add(sources: Sources) -> None:
    """Add the pages."""
    sources.add_page(f"{FOLDER}/index.md", index())
    for module, names in groups().items():
        sources.add_page(f"{FOLDER}/{module}.md", page(module, names))
