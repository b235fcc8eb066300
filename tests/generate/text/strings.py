# SPDX-License-Identifier: Apache-2.0
"""Strings of many scripts, for tests of text: words, code, emoji, marks, controls, spaces, digits, and bytes that are not UTF-8."""
import unicodedata

# The first and the last character of runs that text is made of, one for each script or kind.
RUNS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x52F),
    (0x531, 0x587), (0x591, 0x5F4), (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7B1), (0x7C0, 0x7FA), (0x900, 0x97F),
    (0x980, 0x9FE), (0xA01, 0xA76), (0xA81, 0xAFF), (0xB01, 0xB77), (0xB82, 0xBFA), (0xC00, 0xC7F), (0xC80, 0xCF2),
    (0xD00, 0xD7F), (0xD82, 0xDF4), (0xE01, 0xE5B), (0xE81, 0xEDF), (0xF00, 0xFDA), (0x1000, 0x109F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1200, 0x137C), (0x13A0, 0x13FD), (0x1400, 0x167F), (0x1680, 0x169C), (0x16A0, 0x16F8),
    (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2000, 0x206F), (0x2070, 0x209C),
    (0x20A0, 0x20BF), (0x2100, 0x214F), (0x2150, 0x218B), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2460, 0x24FF),
    (0x2500, 0x25FF), (0x2600, 0x27BF), (0x2C00, 0x2C7F), (0x2D30, 0x2D7F), (0x3000, 0x303F), (0x3041, 0x309F),
    (0x30A0, 0x30FF), (0x3105, 0x312F), (0x3131, 0x318E), (0x3200, 0x32FE), (0x4E00, 0x9FEF), (0xA000, 0xA48C),
    (0xAC00, 0xD7A3), (0xF900, 0xFAD9), (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFE20, 0xFE2F), (0xFF01, 0xFFEE),
    (0x10000, 0x100FA), (0x10330, 0x1034A), (0x10400, 0x104FB), (0x12000, 0x12399), (0x13000, 0x1342E),
    (0x1D400, 0x1D7FF), (0x1F000, 0x1F0F5), (0x1F100, 0x1F189), (0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6EC),
    (0x1F900, 0x1F9FF), (0x20000, 0x2A6D6), (0xE000, 0xE0FF), (0xE0020, 0xE007F),
]
SPACES = [" ", " ", " ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\x85", "\v", "\f", " \n", "\n "]
WORDS = ("the of and to in is it you that he was for on are with as his they at be this have from or one had by word but not "
         "what all were we when your can said there use an each which she do how their if will up other about out many then "
         "them these so some her would make like him into time has look two more write go see number no way could people my "
         "don't can't I'm we'll they've it's you're he'd DON'T I'M O'Neill naïve café Straße coöperate").split()
CODE = ["def f(x):", "return x + 1", "for (int i = 0; i < n; i++) {", "}", "#include <stdio.h>", "=>", "!=", "->", "::", "//", "/* */",
        "print('hello')", "\tif", "        x = 3.14159", "SELECT * FROM t;", "<div class=\"a\">", "</div>", "http://example.com/a?b=c&d=%20", "0x1F",
        "1e-9", "10,000", "1234567890", "snake_case_name", "camelCaseName", "HTTPServer", "$HOME", "`ls`", "{{x}}", "a.b.c", "@property"]
MARKS = [0x300, 0x301, 0x308, 0x323, 0x327, 0x338, 0x345, 0x5B0, 0x64B, 0x651, 0x93C, 0x94D, 0xE48, 0x1AB0, 0x20D7, 0x3099, 0x309A, 0xFE0F, 0x200D]


def assigned(c):
    return unicodedata.category(c) not in ("Cn", "Cs")


def settled(text):
    """Whether all libraries agree on the kinds of its characters: those of later versions of Unicode are left out."""
    return all(assigned(c) and c not in "\U0001F16C\u32FF" and not (unicodedata.category(c)[0] == "M" and unicodedata.ucd_3_2_0.category(c) == "Cn") for c in text)


def word(r):
    low, high = r.choice(RUNS)
    return "".join(filter(assigned, (chr(r.randint(low, high)) for _ in range(r.randint(1, 8)))))


def piece(r, own):
    kind = r.randrange(14)
    if kind < 4:
        return r.choice(WORDS)
    if kind < 7:
        return word(r)
    if kind == 7:
        return r.choice(CODE)
    if kind == 8:
        return str(r.randrange(10 ** r.randint(1, 12)))
    if kind == 9:
        return r.choice(SPACES) * r.randint(1, 5)
    if kind == 10:
        return r.choice("aeiouAnoxEक가") + "".join(chr(r.choice(MARKS)) for _ in range(r.randint(1, 3)))
    if kind == 11:
        return r.choice(["!", "...", "?!", "'", "''", '"', "--", "—", "(", ")", "[x]", "#", "…", "“a”", "$5.00", "50%", "¡", "。", "、", "،"])
    if kind == 12:
        return chr(r.choice([0, 1, 7, 8, 27, 31, 127, 0x80, 0x9F, 0xAD, 0xFEFF, 0xFFFD, 0xFFFC, 0x2581, 0x2582, 0x130, 0xDF, 0x1E9E, 0x17F, 0x212A]))
    return r.choice(own) if own else r.choice(["👩‍👩‍👧‍👦", "🇸🇪", "👍🏽", "❤️", "1️⃣"])


def string(r, own=()):
    """One string. `own`: texts that mean something to the tokenizer, put in at times."""
    parts = []
    for _ in range(r.choice([1, 1, 2, 3, 5, 8, 13])):
        parts.append(piece(r, own))
        if r.random() < 0.7:
            parts.append(r.choice(SPACES))
    return "".join(parts)


def spoiled(r, text):
    """The string's bytes, some of them changed so that they are not UTF-8."""
    data = bytearray(text.encode())
    for _ in range(r.randint(1, 3)):
        if data:
            at = r.randrange(len(data))
            data[at:at + r.randint(0, 2)] = bytes(r.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0xA0]) for _ in range(r.randint(1, 3)))
    return bytes(data)
