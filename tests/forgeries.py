"""Files that no reader may take for a certified mechanism, and honest ones that each must take.

Forged files have the digest that their header says: everybody who can edit a file can compute it.
It is computed here without the library, as docs/format.md has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import strategies as some
import whereish as wh
from whereish.format import mechanism_bytes, signed
from whereish.measures import Limits

TOTAL = 2**63
Arrays = dict[str, NDArray[Any]]
Texts = dict[str, Any]
_NAMES = {"uint64": "U64", "float64": "F64", "int32": "I32", "float32": "F32", "int64": "I64"}


def taken_apart(content: bytes) -> tuple[Arrays, Texts, Texts]:
    """Return the arrays of a file, what it says of the mechanism, and its certificate."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    texts = header.pop("__metadata__")
    kinds = {name: kind for kind, name in _NAMES.items()}
    arrays = {
        name: np.frombuffer(
            content[8 + length :][slice(*about["data_offsets"])], kinds[about["dtype"]]
        ).reshape(about["shape"])
        for name, about in header.items()
    }
    return arrays, json.loads(texts["mechanism"]), json.loads(texts["certificate"])


def described(arrays: Arrays) -> tuple[dict[str, Any], bytes]:
    header, data = {}, b""
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), end],
        }
        data += array.tobytes()
    return header, data


def plain(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def put_together(header: Any, texts: dict[str, Any], data: bytes) -> bytes:
    """Return a file with the digest it should have, whatever is in it."""
    beside = ("sha256", "signature", "signer")
    rest = {name: text for name, text in texts.items() if name not in beside}
    digest = hashlib.sha256((plain([header, rest]) + "\n").encode() + data).hexdigest()
    return headed(plain({"__metadata__": {**texts, "sha256": digest}, **header}), data)


def headed(text: str, data: bytes) -> bytes:
    head = text.encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def file_of(arrays: Arrays, told: Any, claimed: Any, **more: str) -> bytes:
    header, data = described(arrays)
    texts = {
        "format": "whereish mechanism",
        "version": "1",
        "mechanism": told if isinstance(told, str) else plain(told),
        "certificate": claimed if isinstance(claimed, str) else plain(claimed),
        **more,
    }
    return put_together(header, texts, data)


def near_identity(n: int, m: int) -> NDArray[np.uint64]:
    """Counts that report the true place nearly always: one count in 2^63 for everything else."""
    counts = np.ones((n, m), np.uint64)
    for x in range(n):
        counts[x, x % m] = TOTAL - (m - 1)
    return counts


def on_the_earth() -> wh.Places:
    return wh.square_grid(48.85, 2.33, 48.87, 2.36, cell_km=(0.8, 0.8))


def honest_base() -> bytes:
    places = on_the_earth()
    prior = some.skewed(len(places), 3)
    return mechanism_bytes(wh.optimal(places, prior, 1.07, solver="structured"), prior)


def around(centre: tuple[float, float]) -> bytes:
    """Return a file of places in Paris on a plane with another centre: self-consistent.

    Near the antipode of the places, a kilometre of the plane is a few metres of the ground.
    """
    arrays, told, claimed = taken_apart(mechanism_bytes(wh.exponential(on_the_earth(), 1.07)))
    degrees = arrays["inputs_latlon"]
    xy = wh.LocalPlane(*centre).to_xy(degrees)
    nearest = [np.sort(np.hypot(*(xy - at).T))[1] for at in xy]
    frame = {"plane": list(centre), "cell_km": None}
    away = np.hypot(*(xy[:, None, :] - xy[None, :, :]).T)
    shares = np.exp(-1.07 / 2 * away)
    shares /= shares.sum(axis=1, keepdims=True)
    flat = wh.Mechanism(shares, wh.Places.from_xy(xy), wh.Places.from_xy(xy), 1.07)
    slack = wh.certify(flat)["worst_slack"]
    return file_of(
        {**arrays, "counts": flat.counts, "inputs": xy, "outputs": xy},
        {**told, "inputs": frame, "outputs": frame},
        {**claimed, "largest_snap_km": float(max(nearest)), "worst_slack": slack},
    )


# Centres of a plane that are too far from places in Paris; the first is near the antipode.
FAR_CENTRES = (
    (-47.86, -176.655), (-48.0, -177.6), (-20.0, -150.0), (0.0, -90.0), (0.0, 120.0), (-20.0, 2.0),
    (15.0, 2.3),
)  # fmt: skip
NEAR_CENTRES = ((48.86, 2.345), (52.5, 13.4), (40.0, -3.7), (30.0, 31.0))


def small(private: bytes) -> dict[str, bytes]:
    """Return an "honest" file of four places, and forged ones that one check alone can find.

    "signed" is honest, but its signature is one of another file, by the private key.
    """
    places = wh.square_grid(48.85, 2.33, 48.865, 2.35, cell_km=(0.8, 0.9))
    prior = some.skewed(len(places), 3)
    mechanism = wh.exponential(places, 1.07)
    made = {"honest": mechanism_bytes(mechanism)}
    kept, _, priced = taken_apart(mechanism_bytes(mechanism, prior))
    arrays, told, claimed = taken_apart(made["honest"])
    n, m = arrays["counts"].shape
    xy, degrees, frame = arrays["inputs"], arrays["inputs_latlon"], told["inputs"]

    def add(name: str, change: Arrays | None = None, say: Any = None, claim: Any = None) -> None:
        said = say if isinstance(say, str) else {**told, **(say or {})}
        made[name] = file_of({**arrays, **(change or {})}, said, {**claimed, **(claim or {})})

    add("near identity", {"counts": near_identity(n, m)})
    add("a smaller epsilon", say={"epsilon": 0.2}, claim={"epsilon": 0.2})
    counts = arrays["counts"].copy()
    counts[0, 0] += np.uint64(1)
    add("a row of 2^63 + 1", {"counts": counts})
    add("places moved", {"inputs": xy + 0.01, "outputs": xy + 0.01})
    moved = {**frame, "plane": [48.8, 2.3]}
    add("a plane moved", say={"inputs": moved, "outputs": moved})
    add(
        "outputs are not the inputs",
        {"outputs": xy[::-1].copy(), "outputs_latlon": degrees[::-1].copy()},
    )
    twice, earth = xy.copy(), degrees.copy()
    twice[1], earth[1] = twice[0], earth[0]
    add("two places the same", {"inputs": twice, "outputs": twice, "inputs_latlon": earth,
                                "outputs_latlon": earth, "counts": np.full((n, m), TOTAL // m,
                                                                           np.uint64)})  # fmt: skip
    odd = {**frame, "cell_km": [0.8, 0.9, 1.0]}
    add("a cell of three sides", say={"inputs": odd, "outputs": odd})
    add("epsilon twice", say='{"epsilon":60.0,' + plain(told)[1:])
    add("no build", say={"build": {}})
    add("a false unit", claim={"epsilon_unit": "per mile"})
    add("one claim more", claim={"more": 1})
    add("a word for a number", claim={"worst_slack": "none"})
    add("another array", {"more": np.zeros(3)})
    own = {"epsilon_unit": "per unit of its own metric"}
    away = np.hypot(*(xy[:, None, :] - xy[None, :, :]).T)
    far = 10 * away
    far[0, n - 1] = far[n - 1, 0] = 1000.0
    add("no triangle", {"metric": far}, own, {**own, "metric": "given in the file, for every pair "
                                              "of places"})  # fmt: skip
    add("half a proof", {"proof_left": np.zeros(1, np.int32)})
    made["more texts"] = file_of(arrays, told, claimed, note="hello")
    made["half a signature"] = file_of(arrays, told, claimed, signature="00" * 64)
    made["a false loss"] = file_of(kept, told, {**priced, "quality_loss_km": 0.001})
    double = 2 * kept["prior"]
    said = {"quality_loss_km": 2 * priced["quality_loss_km"],
            "prior_sha256": hashlib.sha256(double.tobytes()).hexdigest()}  # fmt: skip
    made["a prior of 2"] = file_of({**kept, "prior": double}, told, {**priced, **said})
    made["near the antipode"] = around(FAR_CENTRES[0])
    good = made["honest"]
    other = signed(mechanism_bytes(wh.exponential(places, 1.0)), private)
    texts = json.loads(other[8 : 8 + int.from_bytes(other[:8], "little")])["__metadata__"]
    vouched = {name: texts[name] for name in ("signature", "signer")}
    made["signed"] = file_of(arrays, told, claimed, **vouched)
    made["a changed byte"] = good[:-1] + bytes([good[-1] ^ 1])
    made["cut short"] = good[:-8]
    length = int.from_bytes(good[:8], "little")
    line = good[8 : 8 + length].decode().rstrip(" ")
    made["a space"] = headed(line.replace(":", ": ", 1), good[8 + length :])
    return made


def forged() -> dict[str, bytes]:
    """Return files that must be refused, by what is wrong with them."""
    arrays, told, claimed = taken_apart(honest_base())
    n, m = arrays["counts"].shape
    without = {k: v for k, v in arrays.items() if not k.startswith(("proof_", "prior"))}
    blind = {**claimed, "quality_loss_km": None, "lower_bound_km": None, "gap": None,
             "prior_sha256": None, "rounding_cost_km": None}  # fmt: skip
    made: dict[str, bytes] = {}

    def add(
        name: str, change: Arrays | None = None, say: Any = None, claim: Any = None, **more: str
    ) -> None:
        said = {**told, **say} if isinstance(say, dict) else told if say is None else say
        claims = (
            {**blind, **claim} if isinstance(claim, dict) else blind if claim is None else claim
        )
        made[name] = file_of({**without, **(change or {})}, said, claims, **more)

    # Counts that tell, and epsilons that do not fit them.
    sharp = {"counts": near_identity(n, m)}
    levels: list[Any] = [1.07, 1e-12, 0, -0.0, -5, "x", "1.07", True, [], {}, [1.07], 1e10, 5e-10,
                  1e-9, 0.001, 20.0, 1e-300, 1e308]  # fmt: skip
    for level in levels:
        add(f"near identity, epsilon {level!r}", sharp, {"epsilon": level}, {"epsilon": level})
    for word in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        text = plain(told).replace('"epsilon":1.07', f'"epsilon":{word}')
        assert word in text
        add(f"near identity, epsilon {word}", sharp, text, None)
    add("near identity, its certificate claims less", sharp, {"epsilon": 60.0}, {"epsilon": 1.07})
    add("near identity, certified without an epsilon", sharp, {"epsilon": None}, {})
    gone = {k: v for k, v in told.items() if k != "epsilon"}
    made["no epsilon at all"] = file_of({**without, **sharp}, gone, blind)
    identity = np.zeros((n, m), np.uint64)
    np.fill_diagonal(identity, TOTAL)
    add("identity", {"counts": identity})
    # One count too many, at the limit of a ratio.
    limits = Limits(1.07, arrays["inputs"])
    rng = np.random.default_rng(7)
    for number in range(12):
        x, o = rng.choice(n, 2, replace=False).tolist()
        counts = arrays["counts"].copy()
        used = np.flatnonzero(counts.min(axis=0) > 0)
        z = int(rng.choice(used))
        allowed = int(limits.factor[x, o]) * int(counts[o, z]) >> int(limits.shift[x, o])
        rest = [k for k in used.tolist() if k != z]
        other = max(rest, key=lambda k: int(counts[x, k]))
        more = allowed + 1 - int(counts[x, z])
        if more >= int(counts[x, other]):
            continue
        counts[x, z] = allowed + 1
        counts[x, other] -= np.uint64(more)
        add(f"a count too many ({number})", {"counts": counts})
    # Rows.
    counts = arrays["counts"].copy()
    counts[3, 4] += np.uint64(1)
    add("a row of 2^63 + 1", {"counts": counts})
    counts = arrays["counts"].copy()
    counts[2, int(np.flatnonzero(counts[2])[0])] -= np.uint64(1)
    add("a row of 2^63 - 1", {"counts": counts})
    counts = np.zeros((n, m), np.uint64)
    counts[:, 0] = counts[:, 1] = 2**63
    counts[:, 2] = 2**63
    add("rows that are 2^63 modulo 2^64", {"counts": counts})
    # Shapes and numbers of the places.
    xy, degrees = arrays["inputs"], arrays["inputs_latlon"]
    for wrong in (np.nan, np.inf, -np.inf, 1e13):
        spoiled = xy.copy()
        spoiled[1, 0] = wrong
        for name in ("inputs", "outputs", "inputs_latlon", "outputs_latlon"):
            add(f"{wrong} in {name}", {name: spoiled})
    for name in ("inputs", "outputs", "inputs_latlon", "outputs_latlon"):
        whole = arrays[name]
        add(f"{name} with one column", {name: whole[:, :1].copy()})
        add(f"{name} with three columns", {name: np.hstack([whole, whole[:, :1]])})
        add(f"{name} as a list", {name: whole.ravel().copy()})
        add(f"{name} too short", {name: whole[:-1].copy()})
        add(f"{name} too long", {name: np.vstack([whole, whole[:1] + 1])})
        add(f"{name} empty", {name: whole[:0].copy()})
        add(f"{name} moved", {name: whole + 0.001})
        made[f"no {name}"] = file_of(
            {k: v for k, v in without.items() if k != name}, told, blind
        )  # fmt: skip
    twice = xy.copy()
    twice[1] = twice[0]
    earth = degrees.copy()
    earth[1] = earth[0]
    add("two places the same", {"inputs": twice, "outputs": twice, "inputs_latlon": earth,
                                "outputs_latlon": earth})  # fmt: skip
    beyond = degrees.copy()
    beyond[0, 0] = 91.0
    add("latitude 91", {"inputs_latlon": beyond})
    add("no places", {name: without[name][:0].copy() for name in without})
    add("counts as a list", {"counts": arrays["counts"].ravel().copy()})
    add("counts transposed away", {"counts": arrays["counts"][:, :-1].copy()})
    add("counts missing a row", {"counts": arrays["counts"][:-1].copy()})
    for name, kind in (("counts", np.int32), ("counts", np.float64), ("inputs", np.int32),
                       ("inputs", np.uint64)):  # fmt: skip
        add(f"{name} as {np.dtype(kind)}", {name: without[name].astype(kind)})
    add("an array that nobody knows", {"more": np.zeros(3)})
    # What is said of the plane, the cells, the outputs, the build.
    frame = told["inputs"]
    lat, lon = frame["plane"]
    planes: list[Any] = [
         [lat + 0.001, lon], [lat, lon + 0.001], ["48", "2"], [lat], [lat, lon, 0], [True, False],
         "plane", {}, [None, None], [91, 0], [0, 181], None,
    ]  # fmt: skip
    for number, plane in enumerate(planes):
        add(f"plane {number}", say={"inputs": {**frame, "plane": plane}})
        add(f"plane of outputs {number}", say={"outputs": {**frame, "plane": plane}})
    for number, cell in enumerate(
        (["1", "1"], [0, 1], [-1, 1], [0.0, 0.0], [1], [1, 1, 1], "cell", [True, True], {},
         [None, 1], [1e13, 1])
    ):  # fmt: skip
        add(f"cell {number}", say={"inputs": {**frame, "cell_km": cell}})
    frames: list[Any] = [None, [], "x", {}, {"plane": frame["plane"]}, 3]
    for number, inputs in enumerate(frames):
        add(f"inputs said as {number}", say={"inputs": inputs})
    flags: list[Any] = ["true", 1, None, []]
    for value in flags:
        add(f"outputs_are_inputs {value!r}", say={"outputs_are_inputs": value})
    swapped = arrays["outputs"][::-1].copy()
    add("outputs that are not the inputs", {"outputs": swapped,
                                            "outputs_latlon": degrees[::-1].copy()})  # fmt: skip
    # The same km around another centre: other places on the earth, or other cells.
    for number, centre in enumerate(((-33.86, 151.2), (lat, lon + 1e-3), (lat, -lon), (0, 0))):
        elsewhere = wh.LocalPlane(*centre)
        add(f"outputs that are the inputs on another plane {number}",
            {"outputs_latlon": elsewhere.to_latlon(xy)},
            {"outputs": {**frame, "plane": list(centre)}})  # fmt: skip
    for centre in FAR_CENTRES:
        made[f"a plane around {centre}"] = around(centre)
    nearly = degrees.copy()
    nearly[2, 1] += 1e-10  # far less than a millimetre, and not the same number
    add("outputs that are the inputs at other degrees", {"outputs_latlon": nearly})
    for number, cell in enumerate(([0.8, 0.9], [0.1, 0.1], None)):
        add(f"outputs that are the inputs with other cells {number}",
            say={"outputs": {**frame, "cell_km": cell}})  # fmt: skip
    flat = {k: v for k, v in without.items() if not k.endswith("latlon")}
    made["outputs that are the inputs, flat, with other cells"] = file_of(
        flat, {**told, "inputs": {**frame, "plane": None},
               "outputs": {"plane": None, "cell_km": [3.0, 3.0]}}, blind)  # fmt: skip
    build = told["build"]
    kinds: list[tuple[str, Any]] = [("method", 3), ("method", None), ("solver", []),
                        ("seconds", "1"), ("seconds", True), ("notes", "a"),
                        ("notes", ""), ("notes", [1]),
                        ("gap", {})]  # fmt: skip
    for name, value in kinds:
        add(f"build.{name} {value!r}", say={"build": {**build, name: value}})
    builds: list[Any] = [None, [], "optimal", 3, {}]
    for value in builds:
        add(f"build {value!r}", say={"build": value})
    # Metrics.
    away = np.hypot(*(xy[:, None, :] - xy[None, :, :]).T)
    for name, metric in (
        ("huge", np.where(away > 0, 1e6 + 0 * away, 0.0)), ("NaN", np.where(away > 0, np.nan, 0.0)),
        ("infinite", np.where(away > 0, np.inf, 0.0)), ("negative", -away),
        ("zero", 0 * away), ("skew", away + np.triu(away)), ("short", away[:-1].copy()),
        ("on the diagonal", away + np.eye(n)), ("a list", away.ravel()),
        ("no triangle", away**3 + 0.0), ("too short a way", away * 0.999),
    ):  # fmt: skip
        if name == "huge":
            add(
                "near identity, a metric that allows it but says per km",
                {**sharp, "metric": metric},
            )
            continue
        own = {"epsilon_unit": "per unit of its own metric"}
        add(f"metric {name}", {"metric": metric}, own, own)
    # Priors and proofs.
    even = np.full(n, 1 / n)
    for name, prior in (("short", even[:-1].copy()), ("sum", even * 2), ("NaN", even * np.nan),
                        ("negative", np.r_[-0.5, 1.5, np.zeros(n - 2)])):  # fmt: skip
        add(f"prior {name}", {"prior": prior})
    add("proof alone", {"proof_left": np.zeros(3, np.int32)})
    add("proof of places that are not there", {
        "proof_output": np.zeros(1, np.int32), "proof_left": np.full(1, n, np.int32),
        "proof_right": np.zeros(1, np.int32), "proof_value": np.ones(1)})  # fmt: skip
    add("proof of a place beside itself", {
        "proof_output": np.zeros(1, np.int32), "proof_left": np.ones(1, np.int32),
        "proof_right": np.ones(1, np.int32), "proof_value": np.ones(1)})  # fmt: skip
    # The certificate and the texts.
    for name, claim in (("epsilon", 0.5), ("places", n + 1), ("outputs", 1), ("certified", False),
                        ("ratios_checked", 10**9), ("largest_snap_km", 0.0),
                        ("epsilon_unit", "per mile")):  # fmt: skip
        add(f"certificate: {name}", claim={name: claim})
    wrong_kinds: list[tuple[str, Any]] = [
        ("metric", "miles"), ("method", "x" * 500), ("solver", 3), ("versions", {"whereish": 3}),
        ("quality_loss_km", "far"), ("repair_mix", [1]), ("seconds", True), ("gap", 1e300),
    ]  # fmt: skip
    for name, claim in wrong_kinds:
        add(f"certificate: {name} {str(claim)[:20]}", claim={name: claim})
    more_kinds: list[tuple[str, Any]] = [
        ("worst_slack", "none"), ("worst_slack", [0]), ("worst_slack", True), ("more", 1),
        ("perfect privacy", True), ("__proto__", {"epsilon": 0.0001}), ("toString", None),
    ]  # fmt: skip
    for name, claim in more_kinds:
        add(f"certificate: of another form, {name} {claim}", claim={name: claim})
    for name in blind:
        left = {k: v for k, v in blind.items() if k != name}
        made[f"certificate: no {name}"] = file_of(without, told, left)
    for name, value in (("quality_loss_km", 0.1), ("prior_sha256", "0" * 64)):
        made[f"certificate with a prior: {name}"] = file_of(arrays, told, {**claimed, name: value})
    for text in ("", "x", "null", "[]", "3", '"text"', "{", "[" * 100_000, '{"epsilon":NaN}'):
        add(f"mechanism says {text[:20]}", say=text)
        add(f"certificate says {text[:20]}", claim=text)
    add("epsilon twice", sharp, plain(told)[:-1] + ',"epsilon":60.0}')
    add("__proto__ for an epsilon", sharp, '{"__proto__":' + plain(told) + "}")
    add("more texts", note="hello")
    add("another format", format="whereish profile")
    add("another version", version="2")
    add("half a signature", signature="00" * 64)
    add("a signature of something else", signature="xx", signer="yy")
    # The container itself.
    header, data = described(without)
    texts = {"format": "whereish mechanism", "version": "1", "mechanism": plain(told),
             "certificate": plain(blind)}  # fmt: skip

    def container(name: str, change: Callable[[dict[str, Any]], Any], more: bytes = b"") -> None:
        copy = json.loads(plain(header))
        change(copy)
        made[f"container: {name}"] = put_together(copy, texts, data + more)

    container("offsets false", lambda h: h["counts"].update(data_offsets=[False, 8 * n * m]))
    container("offsets as floats", lambda h: h["counts"].update(data_offsets=[0.0, 8 * n * m]))
    container("offsets of three", lambda h: h["counts"].update(data_offsets=[0, 8 * n * m, 1]))
    container("shape true", lambda h: h["counts"].update(shape=[True, n * m]))
    container("shape as text", lambda h: h["counts"].update(shape=f"{n}{m}"))
    container("shape of three", lambda h: h["counts"].update(shape=[n, m, 1]))
    container("shape that is negative", lambda h: h["counts"].update(shape=[-n, -m]))
    container("shape beyond", lambda h: h["counts"].update(shape=[2**31, 2**31]))
    container("type unknown", lambda h: h["counts"].update(dtype="__proto__"))
    container("type constructor", lambda h: h["counts"].update(dtype="constructor"))
    container("type a list", lambda h: h["counts"].update(dtype=["U64"]))
    container("described by a text", lambda h: h.update(counts="U64"))
    container("described by null", lambda h: h.update(counts=None))
    container("described by a list", lambda h: h.update(counts=["U64", [n, m], [0, 8]]))
    container("described by more", lambda h: h["counts"].update(more=1))
    container("nested", lambda h: h["counts"].update(shape=json.loads("[" * 500 + "]" * 500)))
    container("__proto__", lambda h: h.update(__proto__=h["counts"]))
    container("bytes after it", lambda h: None, b"\0" * 8)
    good = put_together(header, texts, data)
    length = int.from_bytes(good[:8], "little")
    line = good[8 : 8 + length].decode().rstrip(" ")
    for name, header_text in (
        ("a space", line.replace(":", ": ", 1)),
        ("a name twice", line.replace('{"__metadata__"', '{"counts":1,"__metadata__"', 1)),
        ("texts twice", line.replace('"version":"1"', '"version":"1","version":"1"', 1)),
        ("texts a list", plain({"__metadata__": ["x"], **header})),
        ("texts missing", plain(header)),
        ("texts null", plain({"__metadata__": None, **header})),
        ("texts numbers", plain({"__metadata__": {"format": 1}, **header})),
        ("a list", plain([header])),
        ("nothing", ""),
        ("nested without end", "[" * 400_000),
        ("nested objects", '{"a":' * 100_000 + "1" + "}" * 100_000),
        ("not ASCII", line.replace("whereish", "whereïsh", 1)),
        ("another digest", line.replace('"sha256":"', '"sha256":"0', 1)),
        ("no digest", plain({"__metadata__": texts, **header})),
    ):
        made[f"header: {name}"] = headed(header_text, data)
    made["empty"] = b""
    made["eight zeros"] = b"\0" * 8
    made["a long header"] = (2**40).to_bytes(8, "little") + b"{}"
    return made


def honest() -> dict[str, bytes]:
    """Return files that every reader must take: of all kinds that the library writes."""
    made: dict[str, bytes] = {}
    rng = np.random.default_rng(11)
    for seed in range(48):  # optimal: many ratios are at their limit, to the last count
        count = int(rng.integers(2, 10))
        level = float(rng.choice([0.05, 0.5, 1.07, 3.0, 8.0, 20.0]))
        where = wh.Places.from_xy(rng.uniform(0, 4, (count, 2)))
        prior = some.skewed(count, seed)
        made[f"optimal {seed}"] = mechanism_bytes(
            wh.optimal(where, prior, level), prior if seed % 2 else None
        )
    for seed in range(12):
        corner = rng.uniform([-80, -180], [80, 179])
        south, west = corner.tolist()
        where = wh.square_grid(south, west, south + 0.02, west + 0.03, cell_km=(0.9, 0.9))
        level = float(rng.uniform(0.3, 4))
        for kind in (wh.exponential, wh.planar_laplace, wh.tight_constraints):
            try:
                made[f"{kind.__name__} {seed}"] = mechanism_bytes(kind(where, level))
            except wh.SolveError:  # tight constraints do not exist for every epsilon
                continue
    for seed in range(8):
        near = rng.uniform([-85, -180], [85, 180])
        points = np.clip(near + rng.uniform(-0.05, 0.05, (6, 2)), [-90, -180], [90, 180])
        where = wh.Places.from_latlon(points)
        made[f"geodesic {seed}"] = mechanism_bytes(
            wh.exponential(where, 0.7, privacy_metric=wh.geodesic(where))
        )
        edges = [(int(rng.integers(0, i)), i) for i in range(1, 6)]
        roads = wh.graph_metric(6, edges, rng.uniform(0.1, 3, 5).tolist())
        made[f"roads {seed}"] = mechanism_bytes(
            wh.optimal(where, some.skewed(6, seed), 0.9, privacy_metric=roads)
        )
        made[f"outputs {seed}"] = mechanism_bytes(
            wh.optimal(where, some.skewed(6, seed), 0.9, outputs=[1, 4])
        )
    for seed in range(24):  # two places, one ratio exactly at the limit
        where = wh.Places.from_xy([[0, 0], rng.uniform(1e-3, 3, 2).tolist()])
        level = float(rng.uniform(0.01, 5))
        limits = Limits(level, where.xy)
        bound = Fraction(int(limits.factor[0, 1]), 2 ** int(limits.shift[0, 1]))
        low = int(rng.integers(1, int(2**62 / bound)))
        high = int(low * bound)
        counts = np.array([[high, TOTAL - high], [low, TOTAL - low]], np.uint64)
        try:
            made[f"at the limit {seed}"] = mechanism_bytes(
                wh.Mechanism.of_counts(counts, where, where, level)
            )
        except wh.GuaranteeError:
            continue
    for centre in NEAR_CENTRES:
        made[f"a plane around {centre}"] = around(centre)
    world = np.array([[60, 30], [70, 100], [66, -170], [45, 135], [-40, 145], [10, 80]])
    everywhere = wh.Places.from_latlon(world)
    made["half the earth, by geodesics"] = mechanism_bytes(
        wh.exponential(everywhere, 0.002, privacy_metric=wh.geodesic(everywhere))
    )
    areas: dict[str, tuple[float, float, float, float]] = {
        "a country": (41, -5, 51, 9), "a large country": (25, -124, 49, -67),
        "at a pole": (85, 0, 90, 80), "across the date line": (-20, 176, -15, -178),
    }  # fmt: skip
    for name, (bottom, left, top, right) in areas.items():
        cells = wh.square_grid(bottom, left, top, right, cell_km=(400.0, 400.0))
        made[name] = mechanism_bytes(wh.exponential(cells, 0.01))
    wide = wh.Places.from_latlon(np.array([[10, 20], [12, 25], [-5, 40], [30, 60]]))
    made["a continent"] = mechanism_bytes(wh.exponential(wide, 0.002))
    made["date line"] = mechanism_bytes(
        wh.exponential(
            wh.Places.from_latlon(np.array([[0, 179.99], [0, -179.99], [0.1, 180]])), 1.0
        )
    )
    north = wh.Places.from_latlon(np.array([[89.99, 0], [89.99, 90], [89.99, -90], [90, 0]]))
    made["pole"] = mechanism_bytes(wh.exponential(north, 1.0))
    one = wh.Places.from_xy([[0, 0]])
    made["one place"] = mechanism_bytes(wh.Mechanism(np.ones((1, 1)), one, one, 1.0))
    far = wh.Places.from_xy(np.array([[0, 0], [1e9, 0], [0, 1e11]]))
    made["far apart"] = mechanism_bytes(wh.exponential(far, 1e-9))
    for number, (size, level) in enumerate(((1e12, 1e9), (1e12, 1.0), (1e9, 1e9), (1e5, 1e9))):
        ends = wh.Places.from_xy(np.array([[-size, -size], [size, size], [-size, size]]))
        for count in (2, 3):  # the least room in the exponent is up to 1e21
            where = wh.Places.from_xy(ends.xy[:count])
            made[f"the ends of the plane {number} {count}"] = mechanism_bytes(
                wh.exponential(where, level)
            )
            shares = np.full((count, count), 1 / count)
            made[f"the ends of the plane, all alike {number} {count}"] = mechanism_bytes(
                wh.Mechanism(shares, where, where, level)
            )
    grid = on_the_earth()
    prior = some.skewed(len(grid), 1)
    made["no epsilon"] = mechanism_bytes(wh.optimal_privacy(grid, prior, 0.5), prior)
    made["base"] = honest_base()
    return made
