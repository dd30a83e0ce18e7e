"""What `benchmarks.hostile` counts, and that any gain fails it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import hostile

NOTHING = {
    "attacks tried": 40,
    "marks gained": 0,
    "grades moved": 0,
    "files changed": 0,
    "walls passed": 0,
    "secrets read": 0,
    "batches stopped": 0,
}


def test_every_attack_is_tried_and_no_honest_submission_is_one() -> None:
    assert len(hostile.attacks()) > 40
    assert not [name for name, case in hostile.attacks().items() if case.honest]
    assert not set(hostile.HONEST) & set(hostile.attacks())


def test_the_sandboxes_are_of_the_mode_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(names: object, mode: str) -> dict[str, float]:
        asked.append(mode)
        return NOTHING

    monkeypatch.setattr(hostile.os, "geteuid", lambda: 0)
    monkeypatch.setattr(hostile, "measure", measure)
    monkeypatch.setattr(hostile, "measure_as_user", measure)
    hostile.main([])
    assert asked == ["cold", "warm", "cold", "warm"]
    hostile.main(["--mode", "warm"])
    assert asked[4:] == ["warm", "warm"]


@pytest.mark.parametrize("count", [name for name in NOTHING if name != "attacks tried"])
@pytest.mark.parametrize("way", ["measure", "measure_as_user"])
def test_any_gain_fails(count: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile.os, "geteuid", lambda: 0)
    monkeypatch.setattr(hostile, "measure", lambda names, mode: NOTHING)
    monkeypatch.setattr(hostile, "measure_as_user", lambda names, mode: NOTHING)
    hostile.main([])
    monkeypatch.setattr(hostile, way, lambda names, mode: NOTHING | {count: 1})
    who = "root" if way == "measure" else "an ordinary user"
    with pytest.raises(SystemExit, match=f"as {who}, warm: {count}: 1"):
        hostile.main([])


def test_changed_new_and_lost_files_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MHA_COURSE_SECRET", str(tmp_path / "secret"))
    (tmp_path / "secret").write_text("s")
    folder = tmp_path / "submitted" / "an"
    folder.mkdir(parents=True)
    for name in ("kept", "changed", "lost"):
        (folder / name).write_text(name)
    before = hostile.digests(tmp_path)
    (folder / "changed").write_text("other")
    (folder / "lost").unlink()
    (folder / "new").write_text("new")
    (tmp_path / "secret").write_text("t")
    moved = before.items() ^ hostile.digests(tmp_path).items()
    assert {Path(path).name for path, _ in moved} == {"changed", "lost", "new", "secret"}


@pytest.mark.slow
def test_two_attacks_gain_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """With real sandboxes, as whoever runs the tests and as an ordinary user."""
    hostile.main(["--attack", "link_to_the_solution", "--attack", "gives_true"])
    said = capsys.readouterr().out
    zeros = "attacks tried 2, " + ", ".join(f"{name} 0" for name in list(NOTHING)[1:])
    for mode in hostile.MODES:
        assert f"as an ordinary user, {mode}: {zeros}" in said


@pytest.mark.slow
def test_no_attack_on_the_host_gets_through_a_wall(capsys: pytest.CaptureFixture[str]) -> None:
    """Other walls hold an ordinary user's sandbox than root's."""
    attacks = hostile.attacks()
    names = [name for name in attacks if attacks[name].make.__module__.endswith(".host")]
    hostile.main(["--mode", "warm", *(word for name in names for word in ("--attack", name))])
    said = capsys.readouterr().out
    assert len(names) >= 9
    assert said.count(f"attacks tried {len(names)}, marks gained 0") == said.count("walls passed 0")
    assert "as an ordinary user, warm" in said
