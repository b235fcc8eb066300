#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model of a stream's flow control (detail/socket/stream.h): every state that one direction can reach.

The sender writes 1 … n units into what it has of the peer's two halves, as far as credit goes, or announces direct
access, which takes credit alone. Writes arrive in order, whenever they like. The receiver reads as much as it likes of what
has arrived, and tells, whenever it comes to it, what it owes: a half that has been read, and credit. A state that breaks
one of these ends the search:

  the receiver's checks   no more bytes than were offered, no more writes than credit, no table entry over one in use
  the bytes lie in order  each write goes to where the receiver will read next
  credit is kept          what the sender has, what its writes took and what it is not told of yet are the window
  nothing is lost         when all has arrived, been read and been told, the sender can send

The sender's receive queue must take what is told without the sender's looking, while up to GW_STREAM_UNPOSTED_ - 1 receives
that have completed are not posted again: the most of it that was ever unseen is printed, and may not exceed what that
leaves of GW_STREAM_SPARE_. (Whatever they were completed by, this number is missing at most, and all other writes that can
be under way are data, of which there are never more than there is credit for.)
"""
import sys

SPARE = 16  # GW_STREAM_SPARE_
OWED = 8  # GW_STREAM_UNPOSTED_


class Broken(Exception):
    pass


# Sender: lens, addrs (what it has of the halves), at, credit left, entry (of its table, next), pos (sent, mod size).
# Wires: data (units of each write, 0 an announcement), tells (credit, half or None).
# Receiver: got (arrived, unread), room (offered, not arrived), free (read, not offered), untold, half.
def first(size, window):
    return ((size // 2, 0), (0, 0), 0, window, 1, 0, (), (), 0, size // 2, size // 2, 0, 1)


def sends(state, size, maps):
    lens, addrs, at, credit, entry, pos, data, tells, got, room, free, untold, half = state
    if not credit:
        return
    if maps:
        yield lens, addrs, at, credit - 1, entry, pos, data + (0,), tells, got, room, free, untold, half
    for n in range(1, lens[at] + 1):
        if addrs[at] != pos:
            raise Broken("bytes out of order")
        left, moved = list(lens), list(addrs)
        left[at] -= n
        moved[at] += n
        yield (tuple(left), tuple(moved), at if left[at] else at ^ 1, credit - 1, entry, (pos + n) % size, data + (n,),
               tells, got, room, free, untold, half)


def arrives(state, window):
    lens, addrs, at, credit, entry, pos, data, tells, got, room, free, untold, half = state
    if data:
        n = data[0]
        if n > room or untold >= window:
            raise Broken("the receiver refuses a write")
        yield lens, addrs, at, credit, entry, pos, data[1:], tells, got + n, room - n, free, untold + 1, half
    if tells:
        gain, which = tells[0]
        if which is not None:
            if lens[entry]:
                raise Broken("a table entry over one in use")
            lens = tuple(which[1] if i == entry else lens[i] for i in range(2))
            addrs = tuple(which[0] if i == entry else addrs[i] for i in range(2))
            entry ^= 1
        yield lens, addrs, at, credit + gain, entry, pos, data, tells[1:], got, room, free, untold, half


def receives(state, size, window):
    lens, addrs, at, credit, entry, pos, data, tells, got, room, free, untold, half = state
    for n in range(1, got + 1):
        yield lens, addrs, at, credit, entry, pos, data, tells, got - n, room, free + n, untold, half
    whole = free >= size // 2
    if whole or untold >= window // 2:
        which = (half * size // 2, size // 2) if whole else None
        yield (lens, addrs, at, credit, entry, pos, data, tells + ((untold, which),), got,
               room + (size // 2 if whole else 0), free - (size // 2 if whole else 0), 0, half ^ 1 if whole else half)


def explore(size, window, maps):
    todo, seen, unseen = [first(size, window)], {first(size, window)}, 0
    while todo:
        state = todo.pop()
        unseen = max(unseen, len(state[7]))
        if state[3] + len(state[6]) + sum(gain for gain, _ in state[7]) + state[11] != window:
            raise Broken("credit is lost, or made of nothing")
        sent = list(sends(state, size, maps))
        rest = list(arrives(state, window)) + list(receives(state, size, window))
        if not rest and not [s for s in sent if s[5] != state[5]]:
            raise Broken("the sender waits forever")
        for s in sent + rest:
            if s not in seen:
                seen.add(s)
                todo.append(s)
    return len(seen), unseen


def main():
    for size, window, maps in ((2, 2, 0), (4, 2, 1), (4, 4, 1), (8, 4, 0), (8, 2, 1), (4, 8, 0), (6, 3, 0)):
        try:
            states, unseen = explore(size, window, maps)
        except Broken as b:
            sys.exit(f"buffer {size}, {window} writes, announcements {maps}: {b}")
        print(f"buffer {size}, {window} writes, announcements {maps}: {states} states, {unseen} tells unseen at most")
        if unseen > SPARE - (OWED - 1):
            sys.exit("more than the receive queue has room for")


main()
