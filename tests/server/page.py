#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py shows HOST:PORT MODEL PID | asks HOST:PORT TOKEN: looks at the server's page in headless Chromium.

`shows` needs a server with load on MODEL, and kills its process at the end. `asks` needs one with a token."""
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
from browser import main

# What the page shows of a model: its tiles by name, bars with a height, the label of its histogram, its batches.
MODEL = """(() => {
    const card = [...document.querySelectorAll('article')].find((a) => a.querySelector('h2').textContent === TITLE);
    if (!card) return null;
    const tiles = {};
    for (const t of card.querySelectorAll('.tile')) tiles[t.querySelector('.name').textContent] = t.querySelector('.value').textContent;
    return {tiles, bars: [...card.querySelectorAll('.chart > div')].filter((b) => b.getBoundingClientRect().height > 1).length,
            label: card.querySelector('.chart')?.getAttribute('aria-label'),
            times: [...card.querySelectorAll('.time svg')].filter((s) => s.checkVisibility()).map((s) => s.getAttribute('aria-label')),
            drawn: card.querySelector('.time path.s0')?.getAttribute('d'), batches: [...card.querySelectorAll('.batch')].map((b) => b.innerText).join('\\n')};
})()"""


def to_number(text):
    return float(text.replace(",", ""))


def shows(browser, server, model, pid):
    script = MODEL.replace("TITLE", json.dumps(f"{model}, version 3"))
    browser.call("Page.navigate", url=f"http://{server}/")
    browser.until("document.getElementById('state')?.textContent === 'live'", "the server is not live")
    browser.until(f"Number(({script})?.tiles['requests/s'].replace(/,/g, '')) > 0", "no rate")
    first = browser.run(script)
    assert to_number(first["tiles"]["answered"]) > 0 and first["bars"] > 0, first
    assert "requests by latency" in first["label"] and to_number(first["label"].split()[0]) > 0, first
    assert first["tiles"]["latency, median"].split()[1] in ("µs", "ms", "s"), first
    assert first["batches"].startswith("of 1") and "runs" in first["batches"], first
    # Each size once, and no more runs than requests: other numbers have a batch size, too.
    rows = re.findall(r"of (\d+)\s+([\d,]+) runs", first["batches"])
    assert len(rows) == len({size for size, _ in rows}), first
    assert sum(to_number(n) for _, n in rows) <= to_number(browser.run(script)["tiles"]["answered"]) + 1, first
    more = f"Number(({script}).tiles.answered.replace(/,/g, '')) > {to_number(first['tiles']['answered'])}"
    browser.until(more, "the page does not go on")
    # The last minutes are drawn; a chart without anything in it is not shown.
    browser.until(f"({script}).drawn", "nothing is drawn")
    seen = browser.run(script)["times"]
    assert [one.split(" in the last minute: ")[0] for one in seen] == ["Requests", "Latency"], seen
    assert to_number(re.search(r"answered per second ([\d,.]+)", seen[0])[1]) > 0, seen
    assert re.search(r"median [\d.]+ .?s, at most .*; 99 % .*; mean time in the queue \d", seen[1]), seen
    assert "when this page was opened" in browser.run("document.getElementById('since').textContent")
    browser.run("document.querySelector('.time svg').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))")
    assert browser.run("document.querySelector('.time .when').textContent").endswith(" ago")
    # The other model, which two clients ask by RDMA, and one that no client asks.
    other = browser.run(MODEL.replace("TITLE", json.dumps("echo, version 1")))
    assert other["tiles"]["RDMA sessions"].startswith("2 of") and other["bars"] > 0, other
    idle = browser.run(MODEL.replace("TITLE", json.dumps("sum, version 1")))
    assert idle["tiles"]["answered"] == "0" and idle["bars"] == 0 and not idle["times"], idle
    assert browser.run("document.getElementById('machine').innerText").count("%") >= 2
    # A name is text, whatever it looks like.
    assert browser.run("document.title") == "gpuwire serve" and browser.run("document.querySelectorAll('img').length") == 0
    browser.on_a_phone()
    browser.by_day_and_night()
    assert not browser.said, browser.said
    os.kill(int(pid), signal.SIGKILL)
    browser.until("document.getElementById('state').textContent.startsWith('The server has gone; its last answer came at')",
                  "the page does not say that the server has gone")


def asks(browser, server, token):
    browser.gives_token(f"http://{server}/", token)
    browser.until("document.querySelectorAll('article').length === 3", "not all models are shown")


main({"shows": shows, "asks": asks})
