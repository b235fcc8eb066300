#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py SERVE_FAKE: the chat on the server's page, in headless Chromium. 77: there is none."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "integration"))
from browser import PATIENCE, Browser

TOKEN = "the token of the page's test"
TURNS = "[...document.querySelectorAll('.turn')].map((t) => [t.className, t.firstChild.textContent, t.lastChild.textContent])"


def say(browser, text):
    browser.run(f"document.getElementById('words').value = {json.dumps(text)}; document.getElementById('say').requestSubmit()")


def idle(browser):
    browser.until("document.getElementById('stop').hidden", "the answer has no end")


def check_chat(browser):
    browser.run("document.getElementById('most').value = 6; document.getElementById('temperature').value = 0")
    say(browser, "<b>Hello</b>")
    browser.until(f"{TURNS}.length === 2 && {TURNS}[1][2].startsWith('6 tokens')", "no answer")
    first = browser.run(TURNS)
    assert first[0][:2] == ["turn user", "<b>Hello</b>"] and len(first[1][1].split()) == 6, first
    assert "the first after" in first[1][2], first
    say(browser, "<b>Hello</b>")
    browser.until(f"{TURNS}.length === 4 && {TURNS}[3][2].startsWith('6 tokens')", "no second answer")
    assert browser.run(TURNS)[3][1] != first[1][1], "the model does not see what was said before"
    browser.run("document.getElementById('clear').click()")
    assert browser.run(TURNS) == []


def check_stop(browser):
    browser.run("document.getElementById('most').value = ''")
    say(browser, "a long one")
    browser.until(f"{TURNS}[1]?.[1].length > 10", "the answer does not come")
    assert not browser.run("document.getElementById('stop').hidden")
    browser.run("document.getElementById('stop').click()")
    idle(browser)
    assert browser.run(TURNS)[1][2] == "stopped", browser.run(TURNS)
    browser.until("[...document.querySelectorAll('#load .tile')][0].innerText.startsWith('0')", "the server goes on with it")


def check_refusal(browser):
    browser.run("document.getElementById('clear').click(); document.getElementById('most').value = 1000000")
    say(browser, "too much")
    browser.until(f"{TURNS}[1]?.[2].includes('max_tokens')", "the refusal is not shown")
    idle(browser)


def main():
    if not shutil.which("chromium"):
        print("skipped: chromium is not installed")
        sys.exit(77)
    server = subprocess.Popen([sys.argv[1], "30000", "64", TOKEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        try:
            browser.gives_token(f"http://127.0.0.1:{int(server.stdout.readline())}/", TOKEN)
            check_chat(browser)
            check_stop(browser)
            check_refusal(browser)
            browser.by_day_and_night()
            browser.on_a_phone()
            # A 401 and a 400 are in the console; nothing else may be.
            said = [s for s in browser.said if "the server responded with a status of 40" not in json.dumps(s)]
            assert not said, said
        finally:
            browser.end()
            server.stdin.close()
            code = server.wait(PATIENCE)
    assert code == 0, code
    print("people chat on the page")


main()
