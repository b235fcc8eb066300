#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every errno value that a public verbs function can return is spoken of where the function is described.

What a function can return is looked for in its code and in that of the functions that it calls, of which too much is found
rather than too little: a value that a caller swallows or turns into another one is in SWALLOWED, with the reason. What is said
is the function's comment, that of functions to which it refers ("as gw_post_op", "what gw_send does"), and the header's first comment.
"""
import re
import sys

sys.dont_write_bytecode = True
import api  # noqa: E402

HEADERS = ["verbs_device.h", "verbs_tx.h", "verbs_op.h", "verbs_ud.h", "verbs.h", "connect.h"]
CODE = ["include/gpuwire/**/*.h", "src/verbs/*.c"]
ERRNO = re.compile(r"\bE[A-Z]{3,}[A-Z0-9]*\b")
RETURNED = re.compile(r"(?<![=!]= )-E[A-Z]{3,}\b|\breturn\s+(?:bad \? )?E[A-Z]{3,}\b(?: : E[A-Z]+)?|\berr = E[A-Z]{3,}\b")
BODY = re.compile(r"^(?:GW_\w+|static|int|void|struct|uint\w+|enum|bool)\b[^;{}=]*?\b(\w+)\s*\([^;{}]*\)\s*\{", re.M)

ROOM = "no room is ENOMEM to who calls ibv_-like"
PARSE = "a CQE that cannot be parsed is dropped"
RECEIVE = "gw_mlx5_put_recv is given what it takes"
WAITS = "what the empty request after a ticket runs into is looked at again until the deadline"
FLUSH = "a flush whose READ cannot be posted is EIO"
TRIAL = "the trial's completion queue is large enough"
SWALLOWED = {
    "gw_cm_ended": {"ETIMEDOUT": "it is the answer 0"},
    "gw_device_open": {"ENOSPC": TRIAL},
    "gw_post_try": {"ENOSPC": TRIAL},
    "gw_reach_try": {"ENOSPC": TRIAL},
    "gw_cm_listen": {"ETIMEDOUT": "it has not waited when it fails"},
    "gw_post_send": {"EAGAIN": ROOM, "EMSGSIZE": ROOM},
    "gw_post_recv": {"EAGAIN": ROOM},
    "gw_poll_cq": {"EPROTO": PARSE, "EAGAIN": FLUSH, "ENOTCONN": FLUSH, "EOPNOTSUPP": FLUSH},
    "gw_wait_cq": {"EPROTO": PARSE, "ENOTCONN": FLUSH, "EOPNOTSUPP": FLUSH},
    "gw_recv_empty": {"EINVAL": RECEIVE},
    "gw_qp_recv_empty": {"EINVAL": RECEIVE},
    "gw_tx_post": {"EPROTO": PARSE},
    "gw_tx_post_warp": {"EPROTO": PARSE},
    "gw_tx_post_block": {"EPROTO": PARSE},
    "gw_tx_wait": {"EPROTO": PARSE, "EOPNOTSUPP": FLUSH, "EMSGSIZE": WAITS, "ENOTCONN": WAITS},
    "gw_tx_wait_warp": {"EPROTO": PARSE, "EOPNOTSUPP": FLUSH, "EMSGSIZE": WAITS, "ENOTCONN": WAITS},
    "gw_tx_wait_block": {"EPROTO": PARSE, "EOPNOTSUPP": FLUSH, "EMSGSIZE": WAITS, "ENOTCONN": WAITS},
    "gw_tx_flush": {"EPROTO": PARSE, "EOPNOTSUPP": FLUSH, "EMSGSIZE": WAITS, "ENOTCONN": WAITS, "EINVAL": "the ticket is the view's own"},
}


def bodies():
    """{function: its code}, comments left out."""
    found = {}
    for pattern in CODE:
        for path in sorted(api.ROOT.glob(pattern)):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            for m in BODY.finditer(text):
                end, depth = m.end(), 1
                while depth and end < len(text):
                    depth += {"{": 1, "}": -1}.get(text[end], 0)
                    end += 1
                found[m[1]] = found.get(m[1], "") + text[m.end():end]
    return found


def can_return(name, code, seen):
    if name in seen or name not in code:
        return set()
    seen.add(name)
    # A call whose result is thrown away, or that only asks whether it went well, passes no errors on.
    text = re.sub(r"\(void\)\s*\w+\([^;]*;", "", code[name])
    values = {v for r in RETURNED.findall(text) for v in ERRNO.findall(r)}
    for called in set(re.findall(r"\b(\w+)\s*\(", text)):
        values |= can_return(called, code, seen)
    return values


def said(name, book, seen=()):
    comment = book[name][1]
    values = set(ERRNO.findall(comment))
    for other in re.findall(r"\b(?:[Aa]s|what|than)\s+(gw_\w+)", comment):
        if other in book and other != name and other not in seen:
            values |= said(other, book, (*seen, name))
    return values


def main():
    code, book, head = bodies(), {}, {}
    for header in HEADERS:
        text = (api.ROOT / "include/gpuwire" / header).read_text()
        for name, declaration, comment in api.functions(text):
            if name not in book or (comment and not book[name][1]):
                book[name] = (declaration, comment)
                head[name] = set(ERRNO.findall(api.HEAD.search(text)[1]))
    wrong = []
    for name, (declaration, _) in book.items():
        if not re.match(r"GW_\w+\s+int\b", declaration):
            continue
        found = can_return(name, code, set())
        wrong += [f"{name}: nothing is said of {v}" for v in sorted(found - said(name, book) - head[name] - set(SWALLOWED.get(name, {})))]
        wrong += [f"{name}: {v} is in SWALLOWED, and is not there" for v in sorted(set(SWALLOWED.get(name, {})) - found)]
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
