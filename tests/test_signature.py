"""Signed files: whose they are is checked by Python, by the command line and by the client."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from forgeries import headed, put_together
from littlesite import CHROMIUM, CLIENT, chromium, site
from whereish.cli import app
from whereish.format import (
    digest_of,
    mechanism_bytes,
    new_private_key,
    public_key_of,
    signed,
    unpack,
)

NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
IN_A_PAGE = """async ([name, key]) => {
  const { readMechanism } = await import("/client/whereish.js");
  const bytes = await (await fetch("/files/" + name)).arrayBuffer();
  try {
    return (await readMechanism(bytes, { key })).signer;
  } catch (wrong) {
    return wrong.constructor.name;
  }
}"""
IN_NODE = """
import { readFileSync } from "node:fs";
const { readMechanism } = await import(process.argv[1]);
const said = [];
for (const [path, key] of JSON.parse(readFileSync(0, "utf8"))) {
  const given = key === null ? {} : { key: Array.isArray(key) ? new Uint8Array(key) : key };
  await readMechanism(readFileSync(path), given).then(
    (mechanism) => said.push(mechanism.signer), (wrong) => said.push(wrong.constructor.name));
}
process.stdout.write(JSON.stringify(said));
"""


def whereish(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def node(*asked: tuple[Path, Any]) -> list[Any]:
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", IN_NODE, str(CLIENT / "whereish.js")],
        input=json.dumps([(str(path), key) for path, key in asked]),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout)
    return said


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, wh.exponential(some.grid(3, 2), 1.07))
    return path


def forms(public: str) -> list[str | bytes]:
    raw = bytes.fromhex(public)
    key = Ed25519PublicKey.from_public_bytes(raw)
    pem = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = base64.b64encode(raw).decode()
    return [raw, public, public.upper(), text, text.rstrip("="),
            base64.urlsafe_b64encode(raw).decode(), pem, pem.decode()]  # fmt: skip


def resigned(content: bytes, **beside: str) -> bytes:
    """Put other texts beside the digest of a file, as whoever has it can."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    texts = header.pop("__metadata__") | beside
    whole = {"__metadata__": {name: text for name, text in texts.items() if text}, **header}
    return headed(json.dumps(whole, separators=(",", ":")), content[8 + length :])


def test_a_signature_is_of_the_digest_and_nothing_else_changes(plain: Path) -> None:
    content = plain.read_bytes()
    private = new_private_key()
    made = signed(content, private)
    assert digest_of(made) == digest_of(content)
    texts = unpack(made)[1]
    public = serialization.load_pem_private_key(private, None)
    assert isinstance(public, Ed25519PrivateKey)
    public.public_key().verify(
        bytes.fromhex(texts["signature"]),
        b"whereish mechanism signature v1\n" + digest_of(content).encode(),
    )
    again = resigned(made, signature="", signer="")
    assert again == content
    assert signed(made, private) == made


def test_who_has_signed_is_checked(plain: Path, tmp_path: Path) -> None:
    mine, other = new_private_key(), new_private_key()
    public = public_key_of(mine)
    good = tmp_path / "good"
    good.write_bytes(signed(plain.read_bytes(), mine))
    for form in forms(public):
        assert wh.audit_file(good, key=form)["signed_by"] == public
        wh.load_mechanism(good, key=form)
    assert wh.audit_file(good)["signed_by"] is None
    assert wh.audit_file(good)["sha256"] == wh.audit_file(plain)["sha256"]
    theirs = signed(plain.read_bytes(), other)
    another = mechanism_bytes(wh.exponential(some.grid(3, 2), 1.08))
    signature = unpack(good.read_bytes())[1]["signature"]
    bad = {
        "unsigned": plain.read_bytes(),
        "by another": theirs,
        "by another who says it is mine": resigned(theirs, signer=public),
        "of another file": resigned(another, signature=signature, signer=public),
        "of nothing": resigned(good.read_bytes(), signature="00" * 64),
        "changed": resigned(
            good.read_bytes(), signature=signature[:-1] + "01"[signature[-1] == "0"]
        ),
    }
    asked: list[tuple[Path, Any]] = [(good, public), (good, None), (plain, None)]
    asked += [(good, list(bytes.fromhex(public))), (good, forms(public)[3])]
    for name, content in bad.items():
        path = tmp_path / name
        assert content != good.read_bytes()
        path.write_bytes(content)
        with pytest.raises(wh.GuaranteeError, match=r"sign"):
            wh.load_mechanism(path, key=public)
        wh.load_mechanism(path)  # without a key a signature says nothing
        asked.append((path, public))
    for wrong in ("", "key", public[:-1], "é" * 64, b"1" * 31, 3, mine, ec_key()):
        with pytest.raises(wh.InputError, match="key must be"):
            wh.load_mechanism(good, key=wrong)  # type: ignore[arg-type]
    if NODE is not None:
        expected = [public, None, None, public, public]
        assert node(*asked) == expected + ["GuaranteeError"] * (len(asked) - 5)


def ec_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_a_file_that_does_not_hold_is_refused_signed_or_not(plain: Path, tmp_path: Path) -> None:
    """A key vouches for where a file comes from; the audit is made all the same."""
    from forgeries import described, near_identity, taken_apart
    from forgeries import plain as text

    arrays, told, claimed = taken_apart(plain.read_bytes())
    header, data = described({**arrays, "counts": near_identity(6, 6)})
    forged = put_together(header, {"format": "whereish mechanism", "version": "1",
                                   "mechanism": text(told), "certificate": text(claimed)},
                          data)  # fmt: skip
    private = new_private_key()
    path = tmp_path / "forged"
    path.write_bytes(signed(forged, private))
    with pytest.raises(wh.GuaranteeError, match="not private"):
        wh.load_mechanism(path, key=public_key_of(private))
    if NODE is not None:
        assert node((path, public_key_of(private))) == ["GuaranteeError"]
    (tmp_path / "key.pem").write_bytes(private)
    path.write_bytes(forged)
    done = whereish("sign", path, "--key", tmp_path / "key.pem")
    assert done.exit_code == 4
    assert path.read_bytes() == forged


@pytest.mark.slow
def test_the_commands(plain: Path, tmp_path: Path) -> None:
    private, out = tmp_path / "private.pem", tmp_path / "signed.whereish"
    done = whereish("sign", "--new-key", private, "--json")
    assert done.exit_code == 0, done.stderr
    public = json.loads(done.stdout)["public_key"]
    assert os.stat(private).st_mode & 0o777 == 0o600
    before = private.read_bytes()
    assert before.startswith(b"-----BEGIN PRIVATE KEY")
    again = whereish("sign", "--new-key", private)
    assert again.exit_code == 2
    assert private.read_bytes() == before
    assert whereish("audit", plain, "--key", public).exit_code == 4
    done = whereish("sign", plain, "--key", private, "-o", out, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["public_key"] == public
    done = whereish("audit", out, "--key", public, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["signed_by"] == public
    assert found["sha256"] == told["sha256"] == wh.audit_file(plain)["sha256"]
    assert found["sha256"] in done.stderr
    (tmp_path / "public").write_text(public + "\n")
    assert whereish("audit", out, "--key", tmp_path / "public").exit_code == 0
    wrong = whereish("audit", out, "--key", "11" * 32)
    assert wrong.exit_code == 4
    assert "another key" in wrong.stderr
    assert whereish("audit", plain).exit_code == 0
    for words in (["sign"], ["sign", str(plain)], ["sign", "--key", str(private)],
                  ["sign", str(plain), "--key", str(plain)], ["audit", str(out), "--key", "x"],
                  ["sign", str(plain), "--key", str(tmp_path / "none")]):  # fmt: skip
        failed = whereish(*words)
        assert failed.exit_code == 2, words
        assert "Traceback" not in failed.stderr
    assert [path.name for path in tmp_path.glob(".*")] == []


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def times_eight(y: int) -> tuple[int, int] | None:
    """Return 8 times a point with this y on the curve, by its definition; None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        return None
    for _ in range(3):
        both = D * x * x * y * y % P
        x, y = (2 * x * y * pow(1 + both, -1, P) % P, (y * y + x * x) * pow(1 - both, -1, P) % P)
    return x, y


# The encodings of the points of order 1, 2, 4 and 8, with y at most and above the modulus.
Y_OF_ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
SMALL = [
    (y | sign << 255).to_bytes(32, "little").hex()
    for y in (0, 1, P - 1, P, P + 1, Y_OF_ORDER_8, P - Y_OF_ORDER_8)
    for sign in (0, 1)
]


def test_a_key_that_anybody_can_sign_for_is_refused(plain: Path, tmp_path: Path) -> None:
    """With R of small order and S = 0 such a key verifies one file in eight, or every file."""
    asked: list[tuple[Path, Any]] = []
    for number, key in enumerate(SMALL):
        y = int.from_bytes(bytes.fromhex(key), "little") & (2**255 - 1)
        assert times_eight(y % P) == (0, 1)
        for start in ("01" + "00" * 31, "00" * 32, key):
            path = tmp_path / f"{number} {start[:4]}"
            path.write_bytes(resigned(plain.read_bytes(), signature=start + "00" * 32, signer=key))
            for form in (key, bytes.fromhex(key)):
                with pytest.raises(wh.InputError, match="small order"):
                    wh.load_mechanism(path, key=form)
            asked += [(path, key), (path, list(bytes.fromhex(key)))]
    if NODE is not None:
        assert node(*asked) == ["InputError"] * len(asked)


def test_only_keys_of_small_order_are_refused_as_such(plain: Path) -> None:
    numbers = [*range(60), *range(P - 20, P), *(3**k % P for k in range(200))]
    keys = []
    for y in numbers:
        small = times_eight(y) == (0, 1)
        assert small == (y in (0, 1, P - 1))
        if not small:
            keys.append(y.to_bytes(32, "little").hex())
    for key in keys:
        with pytest.raises(wh.GuaranteeError, match="not signed"):
            wh.load_mechanism(plain, key=key)
    if NODE is not None:
        assert node(*((plain, key) for key in keys)) == ["GuaranteeError"] * len(keys)


@pytest.mark.thorough
@pytest.mark.heavy
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_chromium_checks_it_too(plain: Path, tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    private = new_private_key()
    public = public_key_of(private)
    (tmp_path / "signed").write_bytes(signed(plain.read_bytes(), private))
    (tmp_path / "theirs").write_bytes(signed(plain.read_bytes(), new_private_key()))
    with site(files=tmp_path) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        said = [
            page.evaluate(IN_A_PAGE, [name, public]) for name in ("signed", "theirs", plain.name)
        ]
        # Where a runtime cannot check it, nothing is taken on trust.
        page.add_init_script("SubtleCrypto.prototype.verify = undefined")
        page.goto(address)
        without = page.evaluate(IN_A_PAGE, ["signed", public])
    assert said == [public, "GuaranteeError", "GuaranteeError"]
    assert without == "InputError"
