"""The modules of the page in node, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src" / "whereish" / "service" / "page"
CLIENT = ROOT / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))


def run_page(script: str, scratch: Path, *arguments: str) -> Any:
    """Run a script next to the page's modules, as the build lays them out; return its JSON."""
    scratch.mkdir(exist_ok=True)
    for module in PAGE.glob("*.js"):
        shutil.copy(module, scratch)
    if not (scratch / "vendor").exists():
        (scratch / "vendor").mkdir()
        for file in CLIENT.glob("*.js"):
            shutil.copy(file, scratch / "vendor")
        for folder in CLIENT.iterdir():
            if folder.is_dir() and any(folder.glob("*.js")) and folder.name != "test":
                shutil.copytree(folder, scratch / "vendor" / folder.name)
    (scratch / "package.json").write_text('{"type": "module"}')
    (scratch / "run.js").write_text(script)
    done = subprocess.run(
        [str(NODE), "run.js", *arguments], cwd=scratch, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
