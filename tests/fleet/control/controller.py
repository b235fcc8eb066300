#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpuwire controller and gpuwire fleet, as a user runs them, with emulated workers: controller.py GPUWIRE"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

GPUWIRE = sys.argv[1]


def run(*args, code=0):
    done = subprocess.run([GPUWIRE, *args], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (args, done)
    return done.stdout if code == 0 else done.stderr


@contextlib.contextmanager
def program(*args, log):
    with open(log, "ab") as out, subprocess.Popen([GPUWIRE, *args], stdout=subprocess.PIPE, stderr=out, text=True) as p:
        try:
            yield p
        finally:
            p.kill()


def until(what, seconds=30):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


def table(where):
    return json.loads(run("fleet", "--json", "--controller", where))


def active(where):
    return [w["name"] for w in table(where)["workers"] if w["state"] == "active"]


STRANGER = """
import os, socket, struct, sys, time
"".encode("idna") # what this user may not read later
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
end, made, held = time.monotonic() + 1.5, 0, []
while time.monotonic() < end:
    for at in sys.argv[2:]:
        host, port = at.rsplit(":", 1)
        try:
            s = socket.create_connection((host, int(port)), timeout=1)
            made += 1
            if sys.argv[1] == "babbles":
                s.sendall(os.urandom(4096))
            elif sys.argv[1] == "reflects":
                s.sendall(s.recv(65536))
                s.recv(65536)
            elif sys.argv[1] == "promises":
                s.sendall(struct.pack("<IHHQ", 0xffffffff, 1, 0, 1))
            held = held[-400:] + [s]
        except OSError:
            pass
print(made)
"""


def strangers(where, right, folder, log):
    """Another user of the host, without the token, at the ports of the controller and of a worker: who has the token sees nothing of it."""
    with program("fleet", "emulate", "--controller", where, "--models", "2", *right, log=log):
        until(lambda: "emulated-0" in run("fleet", "--once", "--controller", where, *right))
        worker = json.loads(run("fleet", "--json", "--controller", where, *right))["workers"][0]["address"]
        attack = [subprocess.Popen([sys.executable, "-c", STRANGER, how, where, worker], stdout=subprocess.PIPE, text=True)
                  for how in ("silent", "babbles", "reflects", "promises")]
        answered = run("load", "resnet50-0", "--fleet", where, "--deadline", "10s", "--requests", "300", *right)
        made = [int(p.communicate(timeout=60)[0]) for p in attack]
        assert "deadlines kept: 100.000 %: 300 within" in answered and all(made), (answered, made)
        assert json.loads(run("fleet", "--json", "--controller", where, *right))["workers"][0]["state"] == "active"


def main(folder):
    log, audit = folder / "log", folder / "audit"
    assert "--standalone" in run("controller", code=2)
    assert "no such option" in run("controller", "--standalone", "--nothing", code=2)
    assert "refused" in run("fleet", "--once", "--controller", "127.0.0.1:1", code=1)
    for code, *no_port in ((1, "controller", "--standalone", "--address", "host"), (2, "router", "--controller", "host"), (1, "fleet", "--controller", "host")):
        assert "give HOST:PORT" in run(*no_port, code=code)
    assert "which worker" in run("fleet", "drain", code=2)
    with program("controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--audit", str(audit), log=log) as c:
        where, page = re.fullmatch(r"listening on (\S+), (\S+)\n", c.stdout.readline()).groups()
        assert "in use" in run("controller", "--standalone", "--listen", where, "--http", "off", code=1)
        with program("fleet", "emulate", "--controller", where, "--workers", "3", "--models", "5", log=log) as workers:
            until(lambda: len(active(where)) == 3)
            text = run("fleet", "--once", "--controller", where)
            assert "emulated-0" in text and "fleet default, term" in text, text
            fleet = json.loads(get(page + "v1/fleet"))
            assert fleet["models_known"] == 5 and fleet["leads"], fleet
            assert "actions" in json.loads(get(page + "v1/plan"))
            assert "gpuwire_fleet_workers 3\n" in get(page + "metrics")
            assert "<title>gpuwire fleet</title>" in get(page) and "watch(" in get(page + "fleet.js")
            for path, status in (("nothing", 404), ("v1/fleet?x", 404)):
                try:
                    get(page + path)
                    assert path == "v1/fleet?x"
                except urllib.error.HTTPError as e:
                    assert e.code == status, (path, e)
            run("fleet", "drain", "emulated-1", "--controller", where)
            until(lambda: sorted(active(where)) == ["emulated-0", "emulated-2"])
            assert "no such worker" in run("fleet", "drain", "nobody", "--controller", where, code=1)
            run("fleet", "undrain", "emulated-1", "--controller", where)
            until(lambda: len(active(where)) == 3)
            # The audit log is moved away and opened again.
            audit.rename(folder / "audit.1")
            c.send_signal(signal.SIGHUP)
            run("fleet", "drain", "emulated-2", "--controller", where)
            until(audit.exists)
            until(lambda: "emulated-2" in audit.read_text())
            lines = [json.loads(line) for line in (folder / "audit.1").read_text().splitlines() + audit.read_text().splitlines()]
            said = {(line["action"], line.get("worker")) for line in lines}
            assert {("lead", None), ("worker", "emulated-0"), ("drain", "emulated-1"), ("undrain", "emulated-1")} <= said, said
            assert all(line["time"] and line["term"] for line in lines)
            workers.send_signal(signal.SIGTERM)
            assert workers.wait(30) == 0
        until(lambda: not active(where))
        c.send_signal(signal.SIGTERM)
        assert c.wait(20) == 0
    # Who has no token, or another one, learns that, and the controller lives.
    for name in ("right", "wrong"):
        (folder / name).write_text(f"the {name} token of a fleet\n")
        (folder / name).chmod(0o600)
    right = ("--token-file", str(folder / "right"))
    with program("controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "off", *right, log=log) as c:
        where = re.fullmatch(r"listening on (\S+)\n", c.stdout.readline())[1]
        for token in ((), ("--token-file", str(folder / "wrong"))):
            said = run("fleet", "--once", "--controller", where, *token, code=1)
            assert "does not prove that it has the fleet's token" in said, said
            began = time.monotonic()
            said = run("load", "identity", "--fleet", where, "--requests", "1", *token, code=1)
            assert f"{where} refuses this client" in said and time.monotonic() - began < 8, said
        wrong = ("--controller", where, "--fleet-token-file", str(folder / "wrong"))
        with program("router", *wrong, "--port", "0", "--grpc", "off", log=folder / "router"):
            until(lambda: f"{where} refuses this client" in (folder / "router").read_text())
        with program("fleet", "emulate", "--controller", where, log=folder / "worker"):
            until(lambda: f"{where} refuses this worker" in (folder / "worker").read_text())
        assert "fleet default" in run("fleet", "--once", "--controller", where, *right)
        strangers(where, right, folder, log)
    # Models that are named before any worker comes.
    names = folder / "models.json"
    for wrong in ('{"name": "x"}', '[{"nam": "x"}]', '[{"name": "x", "replicas": -1}]', "[1]", "["):
        names.write_text(wrong)
        assert "models.json" in run("controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "off", "--models", str(names), code=1)
    (folder / "repository" / "identity" / "1").mkdir(parents=True)
    (folder / "repository" / "identity" / "1" / "model.onnx").write_text("")
    names.write_text('["other", {"name": "resnet50-0", "replicas": 2}]')
    for path, missing in ((names, ["other"]), (folder / "repository", ["identity"])):
        with program("controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "off", "--models", str(path), log=log) as c:
            where = re.fullmatch(r"listening on (\S+)\n", c.stdout.readline())[1]
            with program("fleet", "emulate", "--controller", where, "--workers", "3", "--models", "2", log=log):
                until(lambda: len(active(where)) == 3)
                assert table(where)["missing"] == missing
                assert "are named, but on no worker: " + missing[0] in run("fleet", "--once", "--controller", where)
                if path is names:
                    until(lambda: sum(w["models"] for w in table(where)["workers"]) >= 2)
                    names.write_text("[")
                    c.send_signal(signal.SIGHUP)
                    until(lambda: "the models named before are kept" in log.read_text())
                    names.write_text('["another"]')
                    c.send_signal(signal.SIGHUP)
                    until(lambda: table(where)["missing"] == ["another"])
    # A full disk is a line, and no end.
    if os.path.exists("/dev/full"):
        with program("controller", "--standalone", "--listen", "127.0.0.1:0", "--http", "off", "--audit", "/dev/full", log=log) as c:
            where = re.fullmatch(r"listening on (\S+)\n", c.stdout.readline())[1]
            until(lambda: "--audit: " in log.read_text() and "No space left" in log.read_text())
            assert table(where)["leads"]
            c.send_signal(signal.SIGTERM)
            assert c.wait(20) == 0


with tempfile.TemporaryDirectory() as name:
    try:
        main(pathlib.Path(name))
    except BaseException:
        sys.stderr.write((pathlib.Path(name) / "log").read_text(errors="replace"))
        raise
