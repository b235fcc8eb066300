#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py shows HOST:PORT PID | asks HOST:PORT TOKEN | takes HOST:PORT: looks at the balancer's page in headless Chromium.

`shows` needs a balancer with the services `web` and `dns`, as test_page.sh makes them, and kills its process at the end.
`asks` needs one with a token. `takes` gives the page answers of its own: foreign words, many services, and none."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
from browser import main

LIVE = "document.getElementById('state')?.textContent === 'live'"

# What the page shows of a service: its counts of workers, its table by worker, and its charts.
CARD = """(() => {
    const card = [...document.querySelectorAll('details.service')].find((d) => d.querySelector('h2').textContent === NAME);
    if (!card) return null;
    const workers = {};
    for (const row of card.querySelectorAll('.workers tbody tr'))
        workers[row.cells[0].firstChild.textContent] = [...row.cells].slice(1).map((cell) => cell.innerText.replace(/\\s+/g, ' '));
    return {counts: [...card.querySelectorAll('.count')].map((c) => c.textContent), workers, open: card.open,
            where: card.querySelector('.where').textContent, alarm: card.querySelector('.alarm').textContent,
            bar: card.querySelector('progress') && [card.querySelector('progress').value, card.querySelector('progress').max],
            times: [...card.querySelectorAll('.time svg')].filter((s) => s.checkVisibility()).map((s) => s.getAttribute('aria-label')),
            drawn: [...card.querySelectorAll('path.line')].map((p) => p.getAttribute('d'))};
})()"""


def card(name):
    return CARD.replace("NAME", json.dumps(name))


def shows(browser, server, pid):
    browser.call("Page.navigate", url=f"http://{server}/")
    browser.until(LIVE, "the balancer is not live")
    browser.until(f"({card('web')})?.counts.join() === '1 up,1 down'", "the workers' states")
    web = browser.run(card("web"))
    assert "/tcp · rr · NAT · HTTP check, /" in web["where"], web
    up, down = web["workers"]["alive"], web["workers"]["dead"]
    assert up[0].startswith("up for ") and "HTTP check, /: " in up[0] and "in a row" in up[0], up
    assert down[0].startswith("down for ") and "HTTP check, /: connect: Connection refused" in down[0], down
    assert "in a row, the last" in down[0] and "next check in" in down[0], down
    dns = browser.run(card("dns"))
    assert dns["counts"] == ["0 up", "1 drained"] and dns["alarm"] == "No worker is up: nothing serves new connections", dns
    assert dns["workers"]["ns1"][0].startswith("drained for ") and "No connection is left" in dns["workers"]["ns1"][0], dns
    # The last minutes come from the control plane.
    browser.until("document.querySelector('#all path.line').getAttribute('d')", "nothing is drawn")
    label = browser.run("document.querySelector('#all svg').getAttribute('aria-label')")
    assert label.startswith("Connections in the last ") and "live 0, at most 0" in label, label
    tiles = browser.run("document.getElementById('machine').innerText")
    assert "1 of 3" in tiles and "data plane" in tiles and "up for" in tiles, tiles
    browser.on_a_phone()
    browser.by_day_and_night()
    assert not browser.said, browser.said
    os.kill(int(pid), signal.SIGKILL)
    browser.until("document.getElementById('state').textContent.startsWith('The balancer has gone; its last answer came at')",
                  "the page does not say that the balancer has gone")


def asks(browser, server, token):
    browser.gives_token(f"http://{server}/", token)
    browser.until(card("web"), "no service is shown")


# ---- answers of the test's own

FOE = "<img src=x onerror=document.title='broken'>"
NO_CHECK = {"kind": "none", "rise": 2, "fall": 3}


def a_worker(number, state, **more):
    health = {"up": state == "up", "known": True, "good": 0, "bad": 4, "why": FOE, "state_ms": 65000, "last_ms": 900, "next_ms": 1100}
    return {"name": f"{FOE}{number}", "id": number, "address": "10.0.0.1", "port": 80, "weight": 1, "state": state, "origin": "itself",
            "silent": False, "leave": False, "queue_pairs": 2, "health": health,
            "telemetry": {"queue": 3, "bytes": 0, "beat_ms": 1000, "age_ms": 400},
            "flows": {"live": 30, "opened": 90, "packets": 900, "bytes": 9000, "drain_from": 40}, **more}


def a_service(number, workers):
    return {"name": f"{FOE}{number}", "id": number, "address": "fd00::1", "port": number, "protocol": "tcp", "scheduler": "wlc",
            "forward": "DR", "check": NO_CHECK, "workers": workers}


HISTORY = {"every_ms": 5000, "age_ms": 1000, "kept": True, "live": [None] * 57 + [1, None, 30], "opened": [None] * 57 + [5, None, 10],
           "packets": [None] * 57 + [5, None, 10], "bytes": [None] * 57 + [5, None, 10]}


def give(browser, server, services, sync):
    """The page gets these answers, whatever it asks the balancer."""
    stats = {"version": FOE, "uptime_ms": 1000, "attached": True, "restarts": 0, "refused": FOE,
             "data": {"version": "0.0.1", "uptime_ms": 99000, "sync": sync, "drops": {FOE: 7}, "totals": {}}}
    workers = [{"name": w["name"], **HISTORY} for s in services[:1] for w in s["workers"]]
    answers = {"v1/stats": stats, "v1/services": {"services": services}, "v1/history": HISTORY,
               "history": {**HISTORY, "workers": workers}}
    script = f"""const answers = {json.dumps(answers)};
        window.asked = [];
        window.fetch = async (path) => {{
            asked.push(path);
            return new Response(JSON.stringify(answers[path] || answers[path.split('/').pop()]));
        }};"""
    old = browser.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    browser.call("Page.navigate", url=f"http://{server}/")
    browser.until(LIVE, "no answer of the test's")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=old)


def takes(browser, server):
    refused = a_worker(3, "refused", refused=FOE)
    sync = {"sends": True, "receives": False, "connected": False, "heard_ms": 61000, "sent": 5, "received": 0}
    give(browser, server, [a_service(1, [a_worker(1, "down"), a_worker(2, "draining", drain_left_ms=125000, leave=True), refused])], sync)
    # Foreign words are text, wherever they stand.
    assert browser.run("document.title") == "gpuwire balance" and browser.run("document.querySelectorAll('img').length") == 0
    shown = browser.run(card(f"{FOE}1"))
    down, draining, _ = (shown["workers"][f"{FOE}{n}"][0] for n in (1, 2, 3))
    assert down.startswith("down for 1 min 5 s") and "It says: 3 requests wait, 2 queue pairs; 0 s ago" in down, down
    assert "30 of 40 connections left" in draining and "2 min 5 s left" in draining and "Then it is removed" in draining, draining
    assert shown["bar"] == [10, 40], shown
    assert "The data plane cannot run it" in shown["workers"][f"{FOE}3"][0], shown
    trouble = browser.run("document.getElementById('trouble').innerText")
    assert "NO STANDBY" in trouble and "refuses the configuration" in trouble, trouble
    assert "1 min 1 s ago" in browser.run("document.getElementById('machine').innerText")
    assert browser.run("document.querySelector('#drops th[scope=row]').textContent") == FOE.replace("_", " ")
    # By its address: a name may have a slash. A gap in the values is a gap in the line.
    browser.until("asked.includes('v1/services/[fd00::1]:1/tcp/history')", "the service's last minutes are not asked for")
    browser.until(f"({card(f'{FOE}1')}).times.length === 3", "no charts")
    shown = browser.run(card(f"{FOE}1"))
    assert shown["times"][0] == "Connections in the last minute: live 30, at most 30", shown
    assert shown["drawn"][0].count("M") == 2 and "L" not in shown["drawn"][0], shown
    browser.on_a_phone()
    # Ten thousand services: the page shows some, and finds the others.
    give(browser, server, [a_service(n, []) for n in range(1, 10001)], None)
    assert browser.run("document.querySelectorAll('details.service').length") == 50
    assert browser.run("document.getElementById('more').textContent") == "50 of 10,000 services are shown"
    browser.run("document.getElementById('filter').value = ':9999/'")
    browser.until("document.querySelectorAll('details.service').length === 1", "no service is found")
    give(browser, server, [], None)
    assert browser.run("document.getElementById('none').checkVisibility()"), "an empty configuration is not named"
    assert not browser.said, browser.said


main({"shows": shows, "asks": asks, "takes": takes})
