# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for tests of the pages, and what both pages must do."""
import contextlib
import json
import os
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
        self.call("Page.enable")
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

    def on_a_phone(self):
        """Nothing is wider than a phone; leaves the page that wide."""
        self.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        assert self.run("document.documentElement.scrollWidth") <= 360, "a phone has to scroll sideways"

    def by_day_and_night(self):
        colours = set()
        for scheme in ("light", "dark"):
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            colours.add(self.run("getComputedStyle(document.body).backgroundColor"))
        assert len(colours) == 2, colours

    def gives_token(self, url, token):
        """The page asks for the token, refuses a wrong one, and shows itself with the right one."""
        form = "document.getElementById('ask')?.hidden === false && document.getElementById('content').hidden"
        give = "document.getElementById('token').value = {}; document.querySelector('#ask button').click()"
        self.call("Page.navigate", url=url)
        self.until(form, "no token is asked for")
        self.run(give.format(json.dumps("not the token")))
        self.until(f"{form} && document.getElementById('state').textContent === 'That is not the token'", "a wrong token")
        self.run(give.format(json.dumps(token)))
        self.until("document.getElementById('state').textContent === 'live'", "the token opens nothing")


def main(actions):
    """The first word of the command line names an action, which gets a browser and the other words."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        try:
            actions[sys.argv[1]](browser, *sys.argv[2:])
        finally:
            browser.end()
