#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py shows HOST:PORT MODEL PID | asks HOST:PORT TOKEN: looks at the server's page in headless Chromium.

`shows` wants a server with load on MODEL, and kills its process at the end. `asks` wants one with a token."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = float(os.environ.get("PATIENCE", "60"))


class Browser:
    """Chromium, asked by the DevTools protocol through a pair of pipes."""

    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]

        def wire():  # Chromium reads from 3 and writes to 4
            high = [os.dup2(to_read, 60), os.dup2(to_write, 61)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(["chromium", *options], preexec_fn=wire, close_fds=False,
                                        start_new_session=True,
                                        env={**os.environ, "HOME": folder, "XDG_RUNTIME_DIR": folder, "TMPDIR": folder},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session, self.said = b"", 0, None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                data = os.read(self.answers, 1 << 16)
                assert data, "Chromium has ended"
                self.rest += data
            line, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(line)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(answer["params"])

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, script, what):
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"{what}: {self.run('document.body.innerText')}\n{self.said}"
            time.sleep(0.2)

    def end(self):
        """Ends the browser and its helpers, which would else write into the folder while that is removed."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + PATIENCE
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end:
                os.killpg(self.process.pid, 0)
                time.sleep(0.05)


# What the page shows of a model: its tiles by name, bars with a height, the label of its histogram, its batches.
MODEL = """(() => {
    const card = [...document.querySelectorAll('article')].find((a) => a.querySelector('h2').textContent === TITLE);
    if (!card) return null;
    const tiles = {};
    for (const t of card.querySelectorAll('.tile')) tiles[t.querySelector('.name').textContent] = t.querySelector('.value').textContent;
    return {tiles, bars: [...card.querySelectorAll('.chart > div')].filter((b) => b.getBoundingClientRect().height > 1).length,
            label: card.querySelector('.chart')?.getAttribute('aria-label'), batches: [...card.querySelectorAll('.batch')].map((b) => b.innerText).join('\\n')};
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
    # The other model, which two clients ask by RDMA, and one that nobody asks.
    other = browser.run(MODEL.replace("TITLE", json.dumps("echo, version 1")))
    assert other["tiles"]["RDMA sessions"].startswith("2 of") and other["bars"] > 0, other
    idle = browser.run(MODEL.replace("TITLE", json.dumps("sum, version 1")))
    assert idle["tiles"]["answered"] == "0" and idle["bars"] == 0, idle
    assert browser.run("document.getElementById('machine').innerText").count("%") >= 2
    # A name is text, whatever it looks like.
    assert browser.run("document.title") == "gpuwire serve" and browser.run("document.querySelectorAll('img').length") == 0
    # A phone; and the dark.
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
    assert browser.run("document.documentElement.scrollWidth") <= 360, "a phone has to scroll sideways"
    colours = set()
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        colours.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2, colours
    assert not browser.said, browser.said
    os.kill(int(pid), signal.SIGKILL)
    browser.until("document.getElementById('state').textContent.startsWith('The server has gone; its last answer came at')",
                  "the page does not say that the server has gone")


def asks(browser, server, token):
    form = "document.getElementById('ask')?.hidden === false && document.getElementById('content').hidden"
    give = "document.getElementById('token').value = {}; document.querySelector('#ask button').click()"
    browser.call("Page.navigate", url=f"http://{server}/")
    browser.until(form, "no token is asked for")
    browser.run(give.format(json.dumps("not the token")))
    browser.until(f"{form} && document.getElementById('state').textContent === 'That is not the token'", "a wrong token")
    browser.run(give.format(json.dumps(token)))
    browser.until("document.getElementById('state').textContent === 'live' && document.querySelectorAll('article').length === 3",
                  "the token opens nothing")


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    browser = Browser(folder)
    try:
        {"shows": shows, "asks": asks}[sys.argv[1]](browser, *sys.argv[2:])
    finally:
        browser.end()
