#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gpuwire app faceverify` without arguments shows everything on one machine, and ends cleanly at Ctrl-C and without memcached.
Wrong arguments, of the server, too, are one line and exit code 2."""
from serve_rig import *


def demo(*options, env=None):
    return subprocess.Popen([GPUWIRE, "app", "faceverify", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})})


def main():
    if not shutil.which("memcached"):
        skip("memcached is not installed")
    said, errors = (p := demo("--exec", "cpu", "--seconds", "0.5")).communicate(timeout=60 * PATIENCE)
    assert p.returncode == 0, (p.returncode, said, errors)
    assert "every verdict was right" in said and "memcached answers" in said, said

    p = demo("--exec", "cpu", "--seconds", "100")
    while "listens" not in (line := p.stdout.readline()):
        assert line, p.stderr.read()
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60 * PATIENCE)
    assert p.returncode == 130, p.returncode

    said, errors = (p := demo("--exec", "cpu", env={"PATH": "/nowhere"})).communicate(timeout=60 * PATIENCE)
    assert p.returncode == 1 and "memcached is not installed" in errors, (p.returncode, errors)
    serve = (["--exec", "tpu"], ["--limit", "0"], ["--threshold", "2"], ["--protocol", "udp"], ["--spread", "even"], ["--proxies", "17"],
             ["-m", "127.0.0.1:0"], ["-l", "127.0.0.1:70000"], ["-l"], ["more"])
    for wrong in (["--exec", "tpu"], ["--seconds", "x"], ["nonsense"], ["--nonsense"], *(["serve", *w] for w in serve),
                  ["where", "--spread", "even"]):
        said, errors = (p := demo(*wrong)).communicate(timeout=60 * PATIENCE)
        assert p.returncode == 2 and errors.count("\n") == 1, (wrong, p.returncode, errors)
    said, errors = (p := demo("serve", "-m", "nowhere.invalid:1")).communicate(timeout=60 * PATIENCE)
    assert p.returncode == 1 and errors.count("\n") == 1, (p.returncode, errors)


main()
