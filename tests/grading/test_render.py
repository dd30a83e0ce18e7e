"""Nothing that a student wrote stays active: in the notebook, in feedback, in formgrader."""

import base64
import io
import json
import re
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from PIL import Image, PngImagePlugin

from grading import render as render_module
from grading.assignment import load
from grading.autograde import autograde
from grading.course import Course
from grading.grade import CellGrade, NotebookGrade, Outcome, Status
from grading.markdown import safe_html
from grading.plain import PICTURE_TYPES, clean, for_comment, picture
from grading.rebuild import rebuild
from grading.render import PRINTED, render
from grading.tasks import places, tasks, with_places
from tests.grading.outcomes import (
    RIGHT_A,
    ChosenSandbox,
    array,
    graded,
    registered_course,
    replaced,
    set_secret,
    use,
)
from tests.grading.small_course import (
    RIGHT,
    cell,
    released_cells,
    solution_cells,
    submit,
    write_notebook,
)

CONFIG = Path(__file__).resolve().parents[2] / "nbgrader_config.py"
MARK = "hostile_mark"  # every script below would hold it
HOSTILE_MARKDOWN = [
    f"<script>{MARK}()</script>",
    f"<img src=x onerror={MARK}()>",
    f"</div></body><script>{MARK}()</script>",
    f"[x](javascript:{MARK}())",
    f"[x](JaVaScRiPt&#58;{MARK}())",
    f"[x](&#x6A;avascript:{MARK}())",
    f"[x](java\tscript:{MARK}())",
    f"[x](<javascript:{MARK}()>)",
    f"[x][r]\n\n[r]: javascript:{MARK}()",
    f"[r]\n\n[r]: data:text/html;base64,PHNjcmlwdD4 '{MARK}'",
    f"<javascript:{MARK}()>",
    f"$\\href{{javascript:{MARK}()}}{{x}}$",
    f"$$\n\\href{{javascript:{MARK}()}}{{x}}\n\n$$",
    f"\\\\[ \\href{{javascript:{MARK}()}}{{x}} \\\\]",
    f"\\begin{{equation}}\\href{{javascript:{MARK}()}}{{x}}\\end{{equation}}",
    f"&lt;script&gt;{MARK}()&lt;/script&gt; &#60;script&#62;",
    f"```\n```html\n<script>{MARK}()</script>\n```\n````\n</code></pre><script>{MARK}()</script>",
    f"```mermaid\nclick a href 'javascript:{MARK}()'\n```",
    f'```x"onmouseover={MARK}()\n```',
    f"![x](https://evil.example/{MARK}.png)",
    f'![x](attachment:missing.png "{MARK}")',
    f"[![x](https://evil.example/a.png)](javascript:{MARK}())",
    f'[x](https://a.example/"onclick="{MARK}())',
    f"[x](https://a.example 'a\" onclick=\"{MARK}()')",
    f"|a|b|\n|-|-|\n|<svg onload={MARK}()>|$\\href{{javascript:{MARK}()}}{{x}}$|",
    f"<!-- --><iframe srcdoc='<script>{MARK}()</script>'></iframe>",
    f"<style>body{{background:url(https://evil.example/{MARK})}}</style>",
    f"<meta http-equiv=refresh content='0;url=https://evil.example/{MARK}'>",
    f"<form action=https://evil.example/{MARK}><button>x</button></form>",
    f"<a href='https://evil.example/{MARK}'\n\n>x</a>\n\n<b>",
    f"- <details ontoggle={MARK}() open>\n\n  > <b onclick={MARK}()>",
    f"# <b onclick={MARK}()>x</b> #",
    f"\u202e<script>{MARK}()</script>\u0000\ud800",
    f"{{{{ {MARK} }}}} {{% include '{MARK}' %}}",
    f"[x](//evil.example/{MARK}) [x](/formgrader/{MARK}) [x](vbscript:{MARK})",
    f"files/{MARK} [x](files/{MARK})",
]


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    return registered_course(tmp_path_factory, tmp_path / "course")


def png(size=(3, 2), **options) -> str:
    file = io.BytesIO()
    Image.new("RGB", size, (200, 10, 20)).save(file, format="PNG", **options)
    return base64.b64encode(file.getvalue()).decode()


def rendered(course: Course, outputs=None, **changes) -> nbformat.NotebookNode:
    outcome = graded(course, "an", ChosenSandbox(outputs=outputs, **changes))
    text = render(outcome.notebooks[0], outcome, {"answer": "the-checksum"})
    return nbformat.reads(text, as_version=4)


def find(notebook, grade_id):
    return next(
        made
        for made in notebook.cells
        if made.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )


def assert_inert(html: str) -> None:
    """Assert that a page runs nothing, calls no other host and links only to plain addresses."""
    page = BeautifulSoup(html, "html.parser")
    assert not page.find_all(["script", "iframe", "object", "embed", "form", "svg", "base"])
    assert not page.find_all("link")
    for tag in page.find_all(True):
        assert not [name for name in tag.attrs if name.startswith("on")], tag
        for name in ("href", "src", "action", "srcdoc", "data", "xlink:href"):
            address = str(tag.attrs.get(name, ""))
            allowed = r"|#[\w-]*|(https?://|mailto:)[^\s]+|data:image/png;base64,[A-Za-z0-9+/=]+"
            assert re.fullmatch(allowed, address), (tag.name, address[:80])
            if tag.name == "img":
                assert address == "" or address.startswith("data:"), address[:80]
    for meta in page.find_all("meta"):
        assert meta.attrs.get("http-equiv", "Content-Security-Policy") == "Content-Security-Policy"
    # What MathJax would act on must stand in code, which it passes over.
    for code in page.find_all(["code", "pre", "style"]):
        code.decompose()
    assert "$" not in page.get_text()
    assert not re.search(r"\\[(\[]|\\begin", page.get_text())


# --- Markdown ---------------------------------------------------------------------------------


@pytest.mark.parametrize("source", HOSTILE_MARKDOWN)
def test_hostile_markdown_is_inert(source):
    html = safe_html(source, {})
    assert "\n" not in html
    assert "$" not in html
    assert "\\" not in html
    assert_inert(html)


def test_honest_markdown_looks_as_written():
    html = safe_html(
        "One **head**, `code` and [a](https://a.example/x?y=1&z=2)\n\n- b\n\n$d_k$", {}
    )
    page = BeautifulSoup(html, "html.parser")
    assert page.strong.text == "head"
    assert page.a["href"] == "https://a.example/x?y=1&z=2"
    assert page.li.text == "b"
    assert page.find_all("code")[1].text == "$d_k$"


def test_text_that_takes_long_to_read_is_shown_plain():
    assert safe_html("|a" * 20_000, {}).startswith(
        '<div class="tex2jax_ignore mathjax_ignore"><pre>'
    )


@pytest.mark.slow
def test_pasted_pictures_survive_redrawn(course: Course):
    note = PngImagePlugin.PngInfo()
    note.add_text("secret", MARK)
    pasted = png(pnginfo=note)
    cells = released_cells()
    for made in cells:
        if made["id"] == "answer":
            made["source"] = "See ![my drawing](attachment:a.png) and ![b](attachment:b.svg)"
            made["attachments"] = {
                "a.png": {"image/png": pasted},
                "b.svg": {"image/svg+xml": f"<svg onload={MARK}()>"},
            }
    submit(course, "an", cells=cells)
    answer = find(rendered(course), "answer")
    page = BeautifulSoup(answer.source, "html.parser")
    data = page.img["src"].removeprefix("data:image/png;base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    assert image.size == (3, 2)
    assert image.getpixel((0, 0)) == (200, 10, 20)
    assert image.info == {}
    assert page.img["alt"] == "my drawing"
    assert "picture left out: b" in page.text
    assert "attachments" not in answer


# --- outputs ----------------------------------------------------------------------------------


def test_only_text_and_redrawn_pictures_stay(course: Course):
    submit(course, "an")
    outputs = [
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": MARK}},
        {"output_type": "display_data", "data": {"image/svg+xml": MARK}},
        {"output_type": "display_data", "data": {"application/javascript": MARK}},
        {"output_type": "display_data", "data": {"text/markdown": MARK}},
        {"output_type": "display_data", "data": {"text/latex": MARK}},
        {"output_type": "display_data", "data": {"application/vnd.jupyter.widget-view+json": {}}},
        {"output_type": "display_data", "data": {"image/png": png()}, "metadata": {MARK: MARK}},
        {"output_type": "display_data", "data": {"image/png": "no picture", "text/plain": "t"}},
        {"output_type": "execute_result", "data": {"text/html": MARK, "text/plain": ["a", "b"]}},
        {"output_type": "stream", "name": MARK, "text": "\x1b[31mred\x1b[0m\ud800\x00"},
        {"output_type": "error", "ename": "<b>", "evalue": "\x1b]8;;x\x07", "traceback": ["<i>"]},
        {"output_type": MARK},
        {"output_type": "display_data", "data": 3},
        {"output_type": "error", "ename": 3, "evalue": None, "traceback": "x"},
        3,
    ]
    notebook = rendered(course, {"number": outputs})
    text = json.dumps(notebook)
    assert MARK not in text
    assert text.count("A picture is left out") == 1
    kinds = [(made.output_type, *made.get("data", {})) for made in find(notebook, "number").outputs]
    assert kinds.count(("display_data", "image/png")) == 1
    assert set(kinds) == {
        ("stream",),
        ("error",),
        ("display_data", "image/png"),
        ("display_data", "text/plain"),
    }
    assert "[An output is left out: only text and pictures are shown.]\n" in text.encode().decode(
        "unicode_escape"
    )
    assert "\\u001b" not in text


def test_endless_outputs_are_cut(course: Course):
    submit(course, "an")
    short = {"output_type": "stream", "name": "stdout", "text": "x" * 10}
    big = {"output_type": "stream", "name": "stdout", "text": "y" * 5_000_000}
    drawn = {"output_type": "display_data", "data": {"image/png": png()}}
    notebook = rendered(
        course, {"number": [short] * 5000, "function": [big] * 9, "number-test": [drawn] * 500}
    )
    assert len(nbformat.writes(notebook)) < 600_000
    assert "too many" in find(notebook, "number").outputs[-1].text
    assert "too long" in find(notebook, "function").outputs[-1].text


def bomb(width: int, height: int) -> str:
    """Return a small PNG file that says it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels)
    return base64.b64encode(data + chunk(b"IEND", b"")).decode()


def picture_of(file_format: str, size: tuple[int, int] = (4, 3)) -> str:
    file = io.BytesIO()
    Image.new("RGB", size).save(file, format=file_format)
    return base64.b64encode(file.getvalue()).decode()


def many_scans() -> str:
    """Return a JPEG that says the same last scan again and again; each costs time."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, format="JPEG", progressive=True)
    content = file.getvalue()
    last = content[content.rindex(b"\xff\xda") : -2]
    return base64.b64encode(content[:-2] + last * 200 + content[-2:]).decode()


@pytest.mark.parametrize(
    "encoded",
    [
        bomb(100_000, 100_000),
        bomb(3_000, 3_000),
        bomb(0, 5),
        "no base64!",
        base64.b64encode(b"GIF89a").decode(),
        picture_of("GIF", (3000, 3000)),
        picture_of("WEBP", (3000, 3000)),
        picture_of("BMP"),
        picture_of("TIFF"),
        many_scans(),
        base64.b64encode(b"<svg onload=x()>").decode(),
        png()[:40],
        "A" * 10_000_000,
        "",
        None,
        7,
        ["a", 3],
        "\ud800",
    ],
    ids=lambda encoded: str(encoded)[:20].encode("ascii", "replace").decode(),
)
def test_what_is_no_small_picture_is_dropped(encoded):
    assert picture(encoded) is None


@pytest.mark.parametrize("kind", PICTURE_TYPES)
def test_every_kind_of_picture_that_is_pasted_is_redrawn_as_its_first_frame(kind):
    file_format = kind.removeprefix("image/").upper()
    frames = [Image.new("RGB", (4, 3), color) for color in ((200, 10, 20), (0, 200, 0))]
    moving = {"save_all": True, "append_images": frames[1:]} if kind != "image/jpeg" else {}
    file = io.BytesIO()
    frames[0].save(file, format=file_format, **moving)
    drawn = picture(base64.b64encode(file.getvalue()).decode())
    assert drawn is not None
    image = Image.open(io.BytesIO(base64.b64decode(drawn)))
    assert (image.format, image.size, getattr(image, "n_frames", 1)) == ("PNG", (4, 3), 1)
    red, green, blue = image.convert("RGB").getpixel((0, 0))
    assert red > 180
    assert max(green, blue) < 60


def test_reading_a_picture_leaves_warnings_as_they_are():
    """Filters belong to all threads: changed here, they would change what others read as Python."""
    seen = []

    def watch(*_: object, **__: object):
        seen.append(list(warnings.filters))
        raise OSError("seen")

    before = list(warnings.filters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "open", watch)
        assert picture(png()) is None
    assert seen == [before]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_pictures_of_every_mode_are_redrawn(mode):
    file = io.BytesIO()
    Image.new(mode, (4, 3)).save(file, format="JPEG" if mode == "CMYK" else "PNG")
    assert picture(base64.b64encode(file.getvalue()).decode()) is not None


def test_what_follows_a_picture_is_dropped():
    with_tail = base64.b64encode(base64.b64decode(png()) + b"<script>" * 100).decode()
    drawn = picture(with_tail)
    assert drawn is not None
    assert b"script" not in base64.b64decode(drawn)


# --- the report and what surrounds it ---------------------------------------------------------


def test_the_report_comes_first_and_says_what_a_student_may_read(course: Course):
    submit(course, "an")
    forged = {"output_type": "stream", "name": "stdout", "text": "✓ head width\n2 of 2 points\n"}
    outcome = graded(
        course,
        "an",
        ChosenSandbox(
            replaced(RIGHT_A, "weights", array((5, 2))), (), outputs={"function-test": [forged]}
        ),
    )
    notebook = nbformat.reads(render(outcome.notebooks[0], outcome, {}), as_version=4)
    report, printed = [made.text for made in find(notebook, "function-test").outputs]
    assert report.startswith("✗ weights: ")
    assert "Subtract the largest score" in report
    assert "Hidden checks: 0 of 1 passed.\n✗ weights is wrong for scores other" in report
    assert "0 of 3 points" in report
    assert report.endswith(f"{PRINTED}\n")
    assert printed == forged["text"]


def test_the_notebook_holds_released_text_and_no_hidden_word(course: Course):
    submit(course, "an")
    text = nbformat.writes(rendered(course))
    for word in ("HIDDEN", "once more", "other sizes", "768 // 12", "several look"):
        assert word not in text


def test_metadata_and_types_are_the_instructors(course: Course):
    cells = released_cells()
    for made in cells:
        made["source"] = RIGHT.get(made["id"], made["source"])
        made["metadata"] = {**made["metadata"], "tags": [MARK], "raw_mimetype": "text/html"}
    cells += [
        cell("x", "raw", f"<script>{MARK}</script>"),
        cell("y", "markdown", f"<script>{MARK}</script>"),
    ]
    submit(course, "an", cells=cells)
    notebook = rendered(course)
    assert "tags" not in json.dumps(notebook)
    assert not [made for made in notebook.cells if made.cell_type == "raw"]
    assert f"<script>{MARK}" not in json.dumps(notebook)
    answer = find(notebook, "answer")
    assert (answer.metadata.nbgrader.checksum, answer.metadata.nbgrader.points) == (
        "the-checksum",
        2,
    )
    counts = [made.execution_count for made in notebook.cells if made.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_only_known_metadata_of_the_instructors_is_kept(course: Course):
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    document = json.loads(notebook.read_text())
    for made in document["cells"]:
        made["metadata"] |= {"tags": ["for-students"], "slideshow": {MARK: MARK}, MARK: 1}
    notebook.write_text(json.dumps(document))
    submit(course, "an")
    shown = rendered(course)
    assert {name for made in shown.cells for name in made.metadata} == {"nbgrader", "tags"}
    assert MARK not in json.dumps(shown)


def test_pictures_in_a_text_too_long_to_read_leave_a_note(course: Course):
    cells = released_cells()
    for made in cells:
        if made["id"] == "answer":
            made["source"] = "![a](attachment:a.png)" + "long " * 3000
            made["attachments"] = {"a.png": {"image/png": png()}}
    submit(course, "an", cells=cells)
    assert "Pictures are left out" in find(rendered(course), "answer").source


def test_code_that_would_not_show_is_made_visible(course: Course):
    submit(course, "an", {"number": "head_width = 64 # \u202e\x1b[8m\x00\ud800"})
    assert (
        find(rendered(course), "number").source == "head_width = 64 # \ufffd\ufffd[8m\ufffd\ufffd"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10%\r50%\r100%\n", "100%\n"),
        ("\x1b]0;title\x07a", "a"),
        ("\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("a\x08b\x07", "ab"),
        ("tiếng Việt — 中文 👩‍🔬", "tiếng Việt — 中文 👩‍🔬"),
        ("\u2066\u202eab\udfff", "ab\ufffd"),
    ],
)
def test_clean_text(text, shown):
    assert clean(text) == shown


@pytest.mark.parametrize("source", HOSTILE_MARKDOWN)
def test_a_comment_stays_text_in_nbgraders_page(source):
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    page = BeautifulSoup(markdown2html_mistune(for_comment(source)), "html.parser")
    assert {tag.name for tag in page.find_all(True)} <= {"p"}
    assert_inert(str(page))


def test_a_comment_keeps_names_readable():
    text = "Cell mha, line 3 uses scaled_dot_product_attention, which is not allowed."
    assert for_comment(text) == text


@pytest.mark.parametrize(
    ("source", "elements", "text"),
    [
        ("So $d_k = 64$ here.", ["msub"], "So d k = 64 here."),
        ("$$\nQ K^\\top \\\\\n\\dots\n$$", ["mtable", "msup"], "Q K ⊤ …"),
        ("\\begin{align}a &= b \\\\ c &= d\\end{align}", ["mtable"], "a = b c = d"),
        ("$\\text{<b>x</b>}$", ["mtext"], "<b>x</b>"),
        ("$\\href{javascript:f()}{x}$", ["code"], "$\\href{javascript:f()}{x}$"),
        ("It costs \\$3 or $4.", [], "It costs $3 or $4."),
    ],
)
def test_formulas_are_shown_without_mathjax(source, elements, text):
    exporter = HTMLExporter(filters={"markdown2html": "grading.formulas.markdown2html"})
    shown = exporter.environment.from_string("{{ source | markdown2html }}").render(source=source)
    page = BeautifulSoup(shown, "html.parser")
    assert all(page.find(name) for name in elements)
    assert page.find(["b", "a", "script"]) is None
    assert " ".join(page.get_text(" ").split()) == text


def with_added(course: Course, *added) -> None:
    cells = released_cells()
    submit(course, "an", cells=[*cells, *added])


def test_what_a_student_added_stands_under_our_word(course: Course):
    """An added cell can neither pass for the page's head nor for the grader's report."""
    forged = "<strong>A person looked: 7 of 7 points.</strong>"
    with_added(course, cell("a", "markdown", forged), cell("b", "code", "print('7 of 7 points')"))
    printed = {"output_type": "stream", "name": "stdout", "text": "7 of 7 points"}
    cells = rendered(course, {"+2": [printed]}).cells[-4:]
    assert [made.cell_type for made in cells] == ["markdown", "markdown", "markdown", "code"]
    assert cells[0].source == cells[2].source == "<strong>Added by the student:</strong>"
    assert [output.text for output in cells[3].outputs] == [f"{PRINTED}\n", "7 of 7 points"]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("x = 1  \n" + " \n" * 33_000 + "y = 2", "x = 1\n\n\n\n"),
        ("(" * 99_999, "("),
        ("a." * 9_000, "a."),
        ("x\n" * 5_000, "x\n"),
    ],
    ids=["blank", "brackets", "dots", "lines"],
)
def test_code_that_is_slow_to_colour_is_cut_with_a_note(course: Course, source, shown):
    with_added(course, *[cell(f"own{number}", "code", source) for number in range(30)])
    sources = [made.source for made in rendered(course).cells if "grade_id" not in str(made)]
    code = [text for text in sources if text.startswith(shown)]
    assert code
    for text in code:
        lines = text.split("\n")
        assert "is left out" in text
        assert len(lines) <= 1_002
        assert max(map(len, lines)) <= 1_060
        assert "\n" * 5 not in text
    assert sum(map(len, sources)) < 110_000


def test_ordinary_code_is_shown_as_it_is(course: Course):
    source = "def f(x):\n\n\n    return x\n" * 100
    with_added(course, cell("own", "code", source))
    assert rendered(course).cells[-1].source == source


# --- the real pages ---------------------------------------------------------------------------


def test_feedback_pages_of_hostile_work_are_inert(course: Course, monkeypatch):
    """One page with every attack in every place, made by the real generate_feedback."""
    (course.root / "nbgrader_config.py").write_text(CONFIG.read_text())
    (course.root / "nbgrader_config.json").write_text(CONFIG.with_suffix(".json").read_text())
    (course.root / "grading").symlink_to(CONFIG.parent / "grading")
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    formulas = r"locked question: $d_k < 3$ and $\\unheard{x}$. "
    notebook.write_text(notebook.read_text().replace("What would one", formulas + "What would one"))
    cells = released_cells()
    for made in cells:
        if made["id"] == "answer":
            made["source"] = "\n\n".join(HOSTILE_MARKDOWN)
        if made["id"] == "number":
            made["source"] = f"</code></pre><script>{MARK}()</script>\n%%html\n<script>"
    for index, source in enumerate(HOSTILE_MARKDOWN):
        cells.append(cell(f"m{index}", "markdown", source))
        cells.append(cell(f"r{index}", "raw", source))
        cells.append(cell(f"c{index}", "code", source))
    script = f"<script>{MARK}()</script>"
    html = {"text/html": script, "text/plain": script, "image/png": png()}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": f"</pre>{script}\x1b[31m{script}"},
        {"output_type": "stream", "name": script, "text": script},
        {"output_type": "error", "ename": script, "evalue": script, "traceback": [script]},
        {"output_type": "execute_result", "execution_count": script, "data": html},
        {
            "output_type": "display_data",
            "data": {"text/plain": script},
            "metadata": {"alt": script},
        },
    ]
    submit(course, "an", cells=cells)
    sandbox = ChosenSandbox(
        outputs={"number": outputs, "number-test": outputs, "function-test": outputs},
        ended="died",
        reason=f"It died {script}",
    )
    use(monkeypatch, sandbox)
    (line,) = autograde(course, "tiny", progress=lambda text: None)
    assert line.status is Status.ATTENTION
    command = [sys.executable, "-m", "nbgrader", "generate_feedback", "tiny"]
    done = subprocess.run(command, cwd=course.root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    page_text = (course.feedback / "an" / "tiny" / "tiny.html").read_text(encoding="utf-8")
    assert_inert(page_text)
    page = BeautifulSoup(page_text, "html.parser")
    policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert page.find("head").find("meta", {"http-equiv": "Content-Security-Policy"})
    # The instructor's formulas and folded hints are shown as such, and long lines are not cut.
    assert page.find("math").find("msub").text.split() == ["d", "k"]
    assert "<code>$\\unheard{x}$</code>" in page_text
    styles = " ".join(style.text for style in page.find_all("style"))
    assert re.search(r"div\.output_area pre[^}]*white-space: pre-wrap", styles)
    assert re.search(r"summary \{[^}]*display: list-item", styles)
    assert "A person will look at your work." in page.text
    assert "Needs attention: " in page.text

    # The page that formgrader serves is made by this exporter with this template.
    config = CONFIG.parent / "grading" / "templates"
    from nbgrader.server_extensions.formgrader import handlers

    exporter = HTMLExporter(
        template_name="formgrade",
        extra_template_basedirs=[str(config), handlers.template_path],
        filters={"markdown2html": "grading.formulas.markdown2html"},
    )
    resources = {
        "base_url": "",
        "submission_id": "1",
        "notebook_id": "tiny",
        "index": 0,
        "total": 1,
    }
    html_text, _ = exporter.from_filename(
        str(course.autograded / "an" / "tiny" / "tiny.ipynb"), resources=resources
    )
    page = BeautifulSoup(html_text, "html.parser")
    assert "connect-src 'self'" in page.find("meta", {"http-equiv": True})["content"]
    container = page.find(id="notebook-container")
    for own in container.find_all(["textarea", "button", "input"]):
        own.decompose()
    assert_inert(str(container))
    assert container.find("math")
    assert "summary { display: list-item" in html_text
    own_scripts = page.find_all("script")
    assert not [script for script in own_scripts if MARK in script.text]
    assert not [s for s in own_scripts if str(s.get("src", "")).startswith(("http", "//"))]


def test_a_notebook_that_cannot_be_shown_needs_attention(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    calls = []

    def broken(run, budget):
        calls.append(run)
        raise ValueError("no such thing")

    monkeypatch.setattr(render_module, "_shown", broken)
    (line,) = autograde(course, "tiny", progress=lambda text: None)
    assert calls
    assert line.status is Status.ATTENTION
    assert line.score == 5.0
    assert "could not show" in line.reasons[-1]
    assert (course.autograded / "an" / "tiny" / "tiny.ipynb").is_file()


# --- what a student finds again -----------------------------------------------------------------


def headed(course: Course) -> Course:
    """Put two tasks into the course, the first with a given cell of code."""
    cells = solution_cells()
    cells.insert(3, cell("loop", "code", "for _ in range(3):\n    print(_)"))
    cells.insert(3, cell("heads", "markdown", "### **Task 2.** `weights` & <rows>\n\n*3 points*"))
    cells.insert(1, cell("width", "markdown", "## Task 1. One head", locked=True))
    write_notebook(course.solutions / "tiny" / "tiny.ipynb", cells)
    return course


def test_cells_are_named_by_the_task_above_them(course: Course):
    notebook = load(headed(course), "tiny").notebooks[0]
    rebuilt = rebuild(notebook, None)
    assert tasks(notebook, rebuilt)["given-1"] == ""
    assert tasks(notebook, rebuilt)["number-test"] == "Task 1. One head"
    named = places(notebook, rebuilt)
    assert named["number"] == "Cell 'number' in \"Task 1. One head\""
    assert named["given-6"] == 'Given cell 1 in "Task 2. weights & <rows>"'
    told = with_places("It ended in given cell 6, after cell 'number'.", named)
    assert told == (
        'It ended in given cell 1 in "Task 2. weights & <rows>", '
        "after cell 'number' in \"Task 1. One head\"."
    )


def test_a_comment_in_shown_code_is_no_task(course: Course):
    cells = solution_cells()
    bug = "**1b.** Find the bug:\n\n```python\n# A\nx = 1\n\n# B\nx = 2\n```"
    cells.insert(1, cell("width", "markdown", "## Task 1. Is `2 * 3` six?", locked=True))
    cells.insert(2, cell("bug", "markdown", bug, locked=True))
    write_notebook(course.solutions / "tiny" / "tiny.ipynb", cells)
    notebook = load(course, "tiny").notebooks[0]
    assert tasks(notebook, rebuild(notebook, None))["number-test"] == "Task 1. Is 2 * 3 six?"


def test_the_report_leads_to_the_cell_it_speaks_of_and_marks_have_their_task(course: Course):
    notebook = load(headed(course), "tiny").notebooks[0]
    rebuilt = rebuild(notebook, None)
    place = places(notebook, rebuilt)["given-6"]
    cells = {
        each.id: CellGrade(each.id, 0.0, each.points, ())
        for each in notebook.cells
        if each.role in ("test", "written")
    }
    outcome = Outcome(
        "an",
        "tiny",
        Status.WARNINGS,
        (f"{place} took longer than 10 seconds.", f"<b>{place}"),
        (NotebookGrade(notebook, rebuilt, None, cells),),
        None,
        "digest",
    )
    made = nbformat.reads(render(outcome.notebooks[0], outcome, {}), as_version=4)
    page = BeautifulSoup(made.cells[0].source, "html.parser")
    assert len(page.find_all("a")) == 1
    target = next(each for each in made.cells if f"#{each.id}" == page.a["href"])
    assert target.source.startswith("for _ in range(3)")
    assert page.find_all("li")[0].text == 'Given cell 1 in "Task 2. weights & <rows>"' + (
        " took longer than 10 seconds."
    )
    assert page.find_all("li")[1].b is None
    assert find(made, "number-test").metadata["course_task"] == "Task 1. One head"
    assert find(made, "answer").metadata["course_task"] == "Task 2. weights & <rows>"
    assert "course_task" not in find(made, "number").metadata
