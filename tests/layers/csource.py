# SPDX-License-Identifier: Apache-2.0
"""What the checks of C sources share: a text without its comments, and lists of exceptions."""
import re

SPACED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text):
    """The text with spaces for what stands in comments and strings: places stay where they are."""
    return SPACED.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)) if m.group(0)[0] == "/" else '"' + " " * (len(m.group(0)) - 2) + '"', text)


def listed(text):
    """A list's exceptions: a line that begins with a space has them; their reason stands above it. {exception: reason}"""
    reason, out = None, {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] != " ":
            reason = line
        else:
            out.update({place: reason for place in line.split()})
    return out
