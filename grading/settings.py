"""solutions/NAME.toml: an assignment's settings, each read with its flaws named."""

from __future__ import annotations

import dataclasses
import math
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from grading.course import Course
from grading.job import Limits
from grading.variants import ID_FILE

RESERVED_FILES = ("checks.json", ID_FILE, "timestamp.txt", "feedback")
# What Python would import from the folder a notebook runs in.
IMPORTABLE = (".py", ".pyc", ".pyw", ".pyd", ".so", ".pth", ".ipy", ".ipynb")
CHECK_KEYS = ("weight", "twin", "hint", "feedback", "tolerance")


class Settings:
    """NAME.toml, read key by key; each reader adds flaws and returns something usable."""

    def __init__(self, path: Path, flaws: list[str]) -> None:
        self.place = path.name
        self.flaws = flaws
        self.used: set[str] = {"checks"}
        try:
            self.table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self.table = {}
            flaws.append(f"{self.place} is not valid TOML ({error}); mend it")
        checks = self.table.get("checks", {})
        self.checks: dict[str, Any] = checks if isinstance(checks, dict) else {}
        if not isinstance(checks, dict):
            flaws.append(f'{self.place}: checks must be tables, [checks."NAME"]')

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        value = self._take(key, None)
        if isinstance(value, str) and value.strip():
            return value
        self.flaws.append(f"{self.place}: {key} = {value!r}; give a text")
        return ""

    def whole(self, key: str, least: int, most: int) -> int:
        """Return a whole number from ``least`` to ``most``."""
        value = self._take(key, None)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.flaws.append(
            f"{self.place}: {key} = {value!r}; give a whole number from {least} to {most}"
        )
        return least

    def switch(self, key: str) -> bool:
        """Return whether something is on; it is off unless set."""
        value = self._take(key, False)
        if not isinstance(value, bool):
            self.flaws.append(f"{self.place}: {key} = {value!r}; give true or false")
        return value is True

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; none is as good as empty."""
        value = self._take(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.flaws.append(f"{self.place}: {key} = {value!r}; give a list of texts")
        return ()

    def identifiers(self, key: str) -> tuple[str, ...]:
        """Return bare names, as of functions or packages."""
        names = self.texts(key)
        for name in names:
            if not name.isidentifier():
                self.flaws.append(
                    f"{self.place}: {key} holds {name!r}; give the bare name of a function or class"
                )
        return names

    def file_names(self, key: str) -> tuple[str, ...]:
        """Return names of plain files, NFC, that nothing here or in Python would act on."""
        names = tuple(unicodedata.normalize("NFC", name) for name in self.texts(key))
        for name in names:
            if not name or "/" in name or "\0" in name or name.startswith("."):
                self.flaws.append(f"{self.place}: {key} holds {name!r}; give plain file names")
            elif name in RESERVED_FILES or name.lower().endswith(IMPORTABLE):
                self.flaws.append(
                    f"{self.place}: {key} holds {name!r}, which the grader or Python would use as "
                    "its own; choose another name"
                )
        return names

    def modules(self, course: Course) -> tuple[str, ...]:
        """Return names of packages that stand in the course's root."""
        names = self.identifiers("modules")
        for name in names:
            if name.isidentifier() and not (course.root / name / "__init__.py").is_file():
                self.flaws.append(
                    f"{self.place}: modules holds {name!r}, but {course.root / name} is no package"
                )
        return names

    def limits(self) -> Limits:
        """Return the sandbox's limits; what is not set has its default."""
        table = self._take("limits", {})
        if not isinstance(table, dict):
            self.flaws.append(f"{self.place}: limits must be a table, [limits]")
            return Limits()
        defaults = dataclasses.asdict(Limits())
        taken: dict[str, Any] = {}
        for key, value in table.items():
            whole_only = isinstance(defaults.get(key), int) and key.endswith(
                ("_bytes", "processes", "cpu_seconds")
            )
            if key not in defaults:
                self.flaws.append(
                    f"{self.place}: limits has no {key!r}; there are {', '.join(sorted(defaults))}"
                )
            elif not is_number(value) or value <= 0 or (whole_only and value != int(value)):
                kind = "whole number" if whole_only else "number"
                self.flaws.append(f"{self.place}: limits.{key} = {value!r}; give a positive {kind}")
            else:
                taken[key] = int(value) if whole_only else value
        return Limits(**taken)

    def check(self, name: str, hidden: bool, place: str) -> dict[str, Any]:
        """Return what is set for one check. ``place`` names its cell for a flaw."""
        table = self.checks.get(name, {})
        where = f'{self.place}, [checks."{name}"]'
        if not isinstance(table, dict):
            self.flaws.append(f"{where}: must be a table")
            table = {}
        for key in table:
            if key not in CHECK_KEYS:
                self.flaws.append(f"{where}: no key {key!r}; there are {', '.join(CHECK_KEYS)}")
        needed, unused = ("feedback", "hint") if hidden else ("hint", "feedback")
        if needed not in table:
            kind = "hidden" if hidden else "visible"
            self.flaws.append(
                f"{place}: the {kind} check {name!r} has no {needed}; add it to {where}"
            )
        if unused in table:
            self.flaws.append(f"{where}: {unused} is for the other kind of check; use {needed}")
        sentences = {}
        for key in ("twin", "hint", "feedback"):
            sentences[key] = table.get(key)
            if key in table and not (isinstance(table[key], str) and table[key].strip()):
                self.flaws.append(f"{where}: {key} = {table[key]!r}; give a text")
                sentences[key] = None
        weight, tolerance = table.get("weight", 1), table.get("tolerance")
        if not is_number(weight) or weight < 0:
            self.flaws.append(f"{where}: weight = {weight!r}; give a number of 0 or more")
            weight = 1
        if tolerance is not None and not (is_number(tolerance) and 0 < tolerance < 1):
            self.flaws.append(f"{where}: tolerance = {tolerance!r}; give a number between 0 and 1")
            tolerance = None
        return {
            "weight": float(weight),
            "twin": sentences["twin"],
            "hint": sentences["hint"] or "",
            "feedback": sentences["feedback"] or "",
            "tolerance": tolerance,
        }

    def refuse_unused_checks(self, seen: Mapping[str, str]) -> None:
        """Add a flaw for each setting of a check that is in no test cell."""
        for name in self.checks:
            if name not in seen:
                self.flaws.append(
                    f'{self.place}: [checks."{name}"] has no check in a test cell; '
                    "mend the name or take it out"
                )

    def refuse_unknown_keys(self) -> None:
        """Add a flaw for each key that nobody has read."""
        for key in self.table:
            if key not in self.used:
                self.flaws.append(
                    f"{self.place}: no setting {key!r}; there are {', '.join(sorted(self.used))}"
                )

    def _take(self, key: str, default: object) -> Any:
        self.used.add(key)
        return self.table.get(key, default)


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is a finite number; True and False are none.

    >>> is_number(1.5), is_number(True), is_number(float("nan"))
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
