#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every state that two ends of a channel can reach, for windows of 1, 2 and 4 messages (include/gpuwire/detail/socket/channel.h).

Checked in each: no side is told of more than it has sent; no message comes without a slot; the writes that the receiver has
not looked at fit into its receive queue, slots + 4; and where nothing is left to do, both sides may send again: no credit is lost.
"""

MESSAGE, CREDIT, FINISH = range(3)


def successors(state, window):
    """A state: per side (sent and not known to be taken, arrived and not taken, taken and not told, finished), and what
    is on its way from it: (kind, messages that it tells of). Yields the next states and whether the step was due."""
    for i in (0, 1):
        out, here, untold, finished = state[i]
        mine, theirs = state[2 + i], state[3 - i]

        def step(side, put=None, take=False):
            new = list(state)
            new[i] = side
            if put:
                new[2 + i] = mine + (put,)
            if take:
                new[3 - i] = theirs[1:]
            return tuple(new)

        if out < window and not finished:
            yield step((out + 1, here, 0, finished), (MESSAGE, untold)), False
        if not finished:
            yield step((out, here, 0, True), (FINISH, untold)), False
        if here:
            yield step((out, here - 1, untold + 1, finished)), True
        if untold >= (window + 1) // 2:
            yield step((out, here, 0, finished), (CREDIT, untold)), True
        if theirs:
            kind, told = theirs[0]
            assert told <= out, f"told of more than was sent: {state}"
            assert kind != MESSAGE or here < window, f"a message without a slot: {state}"
            yield step((out - told, here + (kind == MESSAGE), untold, finished), take=True), True


def explore(window):
    side = (0, 0, 0, False)
    start = (side, side, (), ())
    seen, todo, longest = {start}, [start], 0
    while todo:
        state = todo.pop()
        due = False
        for new, is_due in successors(state, window):
            due |= is_due
            if new in seen:
                continue
            unseen = max(len(new[2]), len(new[3]))
            assert unseen <= window + 4, f"the receive queue is too short: {new}"
            longest = max(longest, unseen)
            seen.add(new)
            todo.append(new)
        assert due or max(state[0][0], state[1][0]) < window, f"neither can go on: {state}"
    print(f"window {window}: {len(seen)} states, at most {longest} writes unseen, room for {window + 4}")


for w in (1, 2, 4):
    explore(w)
