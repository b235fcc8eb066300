#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the API reference that api.py has written into one HTML page: api_html.py API.md API.html (make docs)"""
import html
import pathlib
import re
import sys

STYLE = """body { font: 16px/1.5 sans-serif; margin: 0; display: flex; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 19em; padding: 0 1em; background: #f4f4f4; font-size: 13px; }
main { max-width: 56em; padding: 0 2em; }
nav a { display: block; color: inherit; text-decoration: none; } nav a.header { font-weight: bold; margin-top: 0.6em; }
pre { background: #f4f4f4; padding: 0.6em; overflow: auto; } h3 { margin-bottom: 0.2em; } p { white-space: pre-line; }"""


def text(line):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(line, quote=False))


def convert(markdown):
    """The page's body and its list of contents. The reference has headings, fenced code and paragraphs, and nothing else."""
    body, contents, paragraph, code = [], [], [], None

    def flush():
        if paragraph:
            body.append("<p>" + "\n".join(paragraph) + "</p>")
            paragraph.clear()

    for line in markdown.split("\n"):
        heading = re.match(r"(#{1,3}) (.*)", line)
        if line.startswith("```"):
            flush()
            if code is not None:
                body.append("<pre><code>" + html.escape("\n".join(code), quote=False) + "</code></pre>")
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif heading:
            flush()
            level, name = len(heading[1]), heading[2]
            anchor = re.sub(r"\W+", "-", name).strip("-")
            body.append(f'<h{level} id="{anchor}">{text(name)}</h{level}>')
            if level > 1:
                contents.append(f'<a{" class=header" if level == 2 else ""} href="#{anchor}">{text(name)}</a>')
        elif line.strip():
            paragraph.append(text(line))
        else:
            flush()
    flush()
    return "\n".join(body), "\n".join(contents)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    body, contents = convert(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    page = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>gpuwire API reference</title>\n<style>{STYLE}</style>\n'
    pathlib.Path(sys.argv[2]).write_text(f"{page}<nav>{contents}</nav>\n<main>{body}</main>\n</html>\n", encoding="utf-8")
    print(f"{sys.argv[2]}: {contents.count('href')} entries")


main()
