"""Turns a chapter's MyST text into the Markdown that Jupyter shows.

Roles, directives and attributes are MyST's own: JupyterLab and Colab would show them as they are
typed. This module rewrites each into plain Markdown, and refuses what it does not know, so that
no notebook leaves the build with something in it that reads as noise. It knows nothing of Sphinx:
whoever calls it says what a link to a page and a citation look like.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

ADMONITIONS = {"note", "tip", "hint", "important", "attention", "caution", "warning", "danger"}
# Roles that mark a text and change nothing about what is read.
PLAIN_ROLES = {"n", "abbr", "term", "dfn"}
# Directives of which only the page can make something.
PAGE_ONLY = {"attention-path"}
FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}|:{3,})(?P<info>[^`]*)$")
DIRECTIVE = re.compile(r"\{(?P<name>[\w:-]+)\} *(?P<title>.*)")
OPTION = re.compile(r":(?P<name>[\w-]+):(?: +(?P<value>.*))?$")
UNSEEN = re.compile(r"%|\([\w:.-]+\)=\s*$")  # a comment; the name of a place to link to
TITLED = re.compile(r"(?P<text>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)
# From left to right, the first that fits: what stands in code or in a formula is left alone.
INLINE = re.compile(
    r"""\{(?P<role>[\w:.-]+)\}(?P<ticks>`+)(?P<body>.+?)(?<!`)(?P=ticks)(?!`)
    |(?P<kept>(?P<code>`+).+?(?<!`)(?P=code)(?!`)|\\.|\$\$.+?\$\$|\$[^$]+?\$)
    |!\[(?P<alt>[^\]]*)\]\((?P<picture>[^()\s]+)\)(?:\{[^}]*\})?
    |\[(?P<span>[^\[\]]*)\]\{(?P<attributes>[^}]*)\}
    |\[(?P<text>[^\[\]]*)\]\((?P<address>[^()\s]+)\)""",
    re.VERBOSE | re.DOTALL,
)


class NotMarkdown(ValueError):
    """A piece of MyST that no rule here turns into Markdown."""


@dataclass
class Converter:
    """Turns MyST into Markdown, with what only the book can tell.

    Args:
        page: (target, text) gives the Markdown of a link to a page of the book; the text is
            empty where the page's own title should stand.
        cite: (kind, keys) gives a citation as text; the kind is that of the role, "p" or "t".
        link: (address, text) gives the Markdown of a link that may be relative.

    `pictures` collects the relative paths of the pictures that the text shows: they are
    attachments of the cell then.
    """

    page: Callable[[str, str], str]
    cite: Callable[[str, list[str]], str]
    link: Callable[[str, str], str]
    pictures: list[str] = field(default_factory=list)

    def convert(self, source: str) -> str:
        """Return the MyST text `source` as Markdown.

        Raises:
            NotMarkdown: on a role or directive that no rule covers.
        """
        done: list[str] = []
        prose: list[str] = []
        lines = iter(source.splitlines())
        for line in lines:
            if UNSEEN.match(line):
                continue
            opening = FENCE.match(line)
            if not opening:
                prose.append(line)
                continue
            done += self._prose(prose)
            prose = []
            body = _up_to_closing(lines, opening["fence"], line)
            done += self._block(opening, body, line)
        return "\n".join(done + self._prose(prose)).strip("\n")

    def _prose(self, lines: list[str]) -> list[str]:
        # A paragraph at a time: an odd ` or $ must not reach into the next.
        paragraphs = re.split(r"(\n[ \t]*\n)", "\n".join(lines))
        return ["".join(map(self.inline, paragraphs))] if lines else []

    def _block(self, opening: re.Match[str], body: list[str], line: str) -> list[str]:
        directive = DIRECTIVE.match(opening["info"].strip())
        if not directive:
            return [line, *body, opening["indent"] + opening["fence"]]
        name, title = directive["name"], directive["title"].strip()
        if name in PAGE_ONLY:
            return []
        options, body = _options(body)
        if name in ADMONITIONS or name == "admonition":
            inner = self.convert("\n".join(body))
            heading = self.inline(title) if name == "admonition" else name.capitalize()
            return [f"> {text}".rstrip() for text in [f"**{heading}**", "", *inner.splitlines()]]
        if name in ("figure", "image"):
            caption = self.convert("\n".join(body))
            picture = self._picture(options.get("alt", ""), title)
            return [picture, *(["", f"*{caption}*"] if caption else [])]
        if name == "math":
            return ["$$", *body, "$$"]
        if name in ("code", "code-block"):
            return [f"```{title}", *body, "```"]
        raise NotMarkdown(f"the directive {{{name}}}")

    def inline(self, text: str) -> str:
        """Return a paragraph of MyST as Markdown."""
        return INLINE.sub(self._piece, text)

    def _piece(self, found: re.Match[str]) -> str:
        if found["kept"]:
            return found[0]
        if found["role"]:
            return self._role(found["role"], " ".join(found["body"].split()))
        if found["picture"]:
            return self._picture(found["alt"], found["picture"])
        if found["attributes"] is not None:
            language = re.search(r"\blang=\"?([\w-]+)", found["attributes"])
            inner = self.inline(found["span"])
            return f'<span lang="{language[1]}">{inner}</span>' if language else inner
        return self.link(found["address"], self.inline(found["text"]))

    def _role(self, name: str, body: str) -> str:
        titled = TITLED.fullmatch(body)
        if name == "doc":
            return self.page(titled["target"], titled["text"]) if titled else self.page(body, "")
        if name in ("cite:p", "cite:t"):
            return self.cite(name[-1], [key.strip() for key in body.split(",")])
        if name in PLAIN_ROLES:
            return titled["text"] if titled else body
        if name == "math":
            return f"${body}$"
        raise NotMarkdown(f"the role {{{name}}}")

    def _picture(self, alt: str, address: str) -> str:
        if "://" in address:
            return f"![{alt}]({address})"
        self.pictures.append(address)
        return f"![{alt}](attachment:{address.rsplit('/', 1)[-1]})"


def _up_to_closing(lines: Iterator[str], fence: str, line: str) -> list[str]:
    """Take lines up to the fence that closes, which is as long as the one that opened."""
    body = []
    for each in lines:
        bare = each.strip()
        if len(bare) >= len(fence) and set(bare) == {fence[0]}:
            return body
        body.append(each)
    raise NotMarkdown(f"{line.strip()!r}, which no line closes")


def _options(body: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split a directive's `:name: value` lines from its text."""
    options = {}
    for at, line in enumerate(body):
        option = OPTION.match(line)
        if not option:
            return options, body[at:]
        options[option["name"]] = option["value"] or ""
    return options, []
