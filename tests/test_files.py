"""Files are written atomically, to the right place, and not through links of other users."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import strategies as some
import whereish as wh
from whereish.batch.journal import Journal, Row, Shared
from whereish.batch.output import Folder, alone, open_output
from whereish.files import check_writable, new_folder, write_whole
from whereish.spec import BuildOptions
from whereish.traces.cache import cached, keep

NOBODY = 65534
SECRET, VICTIM = b"where somebody is", b"a file that was there before"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant another user's link")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "home" / "victim"
    file.parent.mkdir(mode=0o700)
    file.write_bytes(VICTIM)
    file.chmod(0o640)
    return file


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder like /tmp: everybody may write, and delete what is theirs."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def plant(link: Path, target: Path, owner: int = NOBODY) -> Path:
    link.symlink_to(target)
    if owner != os.geteuid():
        os.lchown(link, owner, owner)
    return link


def untouched(victim: Path) -> bool:
    return victim.read_bytes() == VICTIM and stat.S_IMODE(victim.stat().st_mode) == 0o640


def owners_only(path: Path) -> bool:
    return stat.S_IMODE(path.lstat().st_mode) == 0o600 and path.lstat().st_uid == os.geteuid()


def save_mechanism(path: Path) -> None:
    wh.save_mechanism(path, wh.exponential(some.grid(2, 2), 1.0), some.skewed(4))


def write_profile(path: Path) -> None:
    wh.write_profile(path, wh.Profile(some.grid(2, 2), some.skewed(4)))


def draw(path: Path) -> None:
    from whereish.plotting import draw_profile

    draw_profile(wh.Profile(some.grid(2, 2), some.skewed(4)), path)


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "whole": ("k", lambda path: write_whole(path, SECRET, private=True)),
    "mechanism": ("k.whereish", save_mechanism),
    "profile": ("me.csv", write_profile),
    "picture": ("me.svg", draw),
    "kept": ("0.kept", lambda path: keep(path, SECRET)),
    "batch": ("k", lambda path: Folder(path.parent).write(path.name, SECRET)),
}


IN_PUBLIC = [name for name in WRITERS if name != "kept"]  # nothing is kept where all may write


@pytest.mark.parametrize("writer", IN_PUBLIC)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_a_folder_of_everybodys_is_replaced(
    shared: Path, victim: Path, writer: str, dangling: bool
) -> None:
    """Whoever made it: in such a folder a link is never written through."""
    name, write = WRITERS[writer]
    target = victim.parent / "new" if dangling else victim
    link = plant(shared / name, target, os.geteuid())
    write(link)
    assert untouched(victim)
    assert not (victim.parent / "new").exists()
    assert not link.is_symlink()
    assert owners_only(link)


@as_root
@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_of_somebody_else_is_replaced(tmp_path: Path, victim: Path, writer: str) -> None:
    name, write = WRITERS[writer]
    (tmp_path / "mine").mkdir()
    link = plant(tmp_path / "mine" / name, victim)
    write(link)
    assert untouched(victim)
    assert not link.is_symlink()
    assert owners_only(link)


@pytest.mark.parametrize("writer", IN_PUBLIC)
def test_a_hard_link_is_parted_from_its_file(shared: Path, victim: Path, writer: str) -> None:
    name, write = WRITERS[writer]
    os.link(victim, shared / name)
    write(shared / name)
    assert untouched(victim)
    assert not (shared / name).samefile(victim)
    assert owners_only(shared / name)


@as_root
def test_a_folder_that_is_a_link_of_somebody_else_is_refused(tmp_path: Path, victim: Path) -> None:
    link = plant(tmp_path / "out", victim.parent)
    for act in (
        lambda: check_writable(link / "victim"),
        lambda: write_whole(link / "victim", SECRET),
        lambda: write_whole(link / "new", SECRET),
        lambda: wh.write_profiles(link, {"a": wh.Profile(some.grid(2, 2), some.skewed(4))}),
        lambda: wh.SyntheticCity(users=1, days=1).write_parquet(link / "victim"),
        lambda: open_output(str(link)),
        lambda: open_output(str(link / "run")),
    ):
        with pytest.raises(wh.InputError, match="link"):
            act()
    with pytest.raises(wh.InputError, match="link"), new_folder(link / "a" / "b"):
        pass
    keep(link / "a.kept", SECRET)
    assert untouched(victim)
    assert [file.name for file in victim.parent.iterdir()] == ["victim"]


def test_a_link_for_a_folder_where_anybody_may_move_it_is_refused(
    tmp_path: Path, victim: Path
) -> None:
    """Without the sticky bit, whose link it is says nothing: others may have put it there."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    link = plant(tmp_path / "open" / "out", victim.parent, os.geteuid())
    with pytest.raises(wh.InputError, match="link"):
        write_whole(link / "victim", SECRET)
    assert untouched(victim)


@as_root
def test_a_new_folder_does_not_take_the_place_that_a_link_names(shared: Path, victim: Path) -> None:
    elsewhere = victim.parent / "empty"
    elsewhere.mkdir()
    for target in (elsewhere, victim.parent / "not there"):
        link = plant(shared / f"out-{target.name}", target)
        with pytest.raises(wh.InputError, match="link"), new_folder(link, private=True) as made:
            (made / "a").write_bytes(SECRET)
        assert not (victim.parent / "not there").exists()
        assert not any(elsewhere.iterdir())
        assert link.is_symlink()


def test_ones_own_link_in_ones_own_folder_is_followed(tmp_path: Path, victim: Path) -> None:
    first = plant(tmp_path / "first", Path("second"), os.geteuid())
    second = plant(tmp_path / "second", Path("home") / "victim", os.geteuid())
    write_whole(first, SECRET, private=True)
    assert first.is_symlink()
    assert second.is_symlink()
    assert victim.read_bytes() == SECRET
    folder = plant(tmp_path / "folder", victim.parent, os.geteuid())
    write_whole(folder / ".." / "folder" / "other", SECRET)
    assert (victim.parent / "other").read_bytes() == SECRET
    with new_folder(folder / "new" / "er") as made:
        (made / "a").write_bytes(SECRET)
    assert (victim.parent / "new" / "er" / "a").read_bytes() == SECRET


def test_ones_own_link_into_a_folder_of_everybodys_goes_no_further(
    tmp_path: Path, shared: Path, victim: Path
) -> None:
    mine = plant(tmp_path / "mine", shared / "k", os.geteuid())
    plant(shared / "k", victim, os.geteuid())
    write_whole(mine, SECRET, private=True)
    assert untouched(victim)
    assert mine.is_symlink()
    assert not (shared / "k").is_symlink()
    assert (shared / "k").read_bytes() == SECRET


def test_links_in_a_ring_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(wh.InputError, match="output"):
            write_whole(path, SECRET)


def test_a_batch_writes_its_journal_and_its_lock_through_no_link(
    tmp_path: Path, victim: Path
) -> None:
    run = tmp_path / "run" / ".batch"
    run.mkdir(parents=True)
    output = Folder(tmp_path / "run")
    for plant_it in (Path.symlink_to, Path.hardlink_to):
        plant_it(run / "journal-000001.jsonl", victim)
        journal = Journal(output, Shared(BuildOptions(epsilon_per_km=1.0))).__enter__()
        journal._parts = 1  # whichever name comes next
        with pytest.raises(wh.InputError, match="journal.*exists"):
            journal.add(Row("me", "me.whereish", "done"))
        (run / "journal-000001.jsonl").unlink()
    run.chmod(0o1777)
    (run / "lock").symlink_to(victim)
    with pytest.raises(wh.InputError, match="it is a link"), alone(output):
        pass
    assert untouched(victim)


def test_a_journal_is_its_owners_only(tmp_path: Path) -> None:
    with Journal(Folder(tmp_path), Shared(BuildOptions(epsilon_per_km=1.0))) as journal:
        journal.add(Row("me", "me.whereish", "done"))
    assert owners_only(tmp_path / ".batch" / "journal-000001.jsonl")


def test_what_others_may_have_kept_is_not_believed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    file = cache / "0.kept"
    keep(file, SECRET)
    assert cached(file) == SECRET
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    cache.chmod(0o777)
    assert cached(file) is None
    keep(cache / "1.kept", SECRET)
    assert not (cache / "1.kept").exists()


@as_root
def test_a_file_of_somebody_else_is_no_cache(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "0.kept"
    keep(file, SECRET)
    os.chown(file, NOBODY, NOBODY)
    assert cached(file) is None
    os.chown(file, 0, 0)
    assert cached(file) == SECRET
    plant(file.parent / "1.kept", file)
    assert cached(file.parent / "1.kept") is None


def test_nothing_is_left_beside_and_names_may_be_long(tmp_path: Path) -> None:
    for name in ("k" * 255, "é" * 127):
        write_whole(tmp_path / name, SECRET, private=True)
        check_writable(tmp_path / name)
        assert [file.name for file in tmp_path.iterdir()] == [name]
        assert owners_only(tmp_path / name)
        (tmp_path / name).unlink()
