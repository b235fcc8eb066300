# SPDX-License-Identifier: Apache-2.0
"""`gpuwire chat` in a terminal and in a pipe: test_chat.py SERVE_FAKE GPUWIRE."""
import os
import pty
import select
import subprocess
import sys
import time

PATIENCE = float(os.environ.get("PATIENCE", "120"))


class Terminal:
    """`gpuwire chat` whose standard input, output and error are a terminal."""

    def __init__(self, *command):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
        os.close(slave)
        self.text = ""

    def until(self, what):
        """The text up to that, which must come."""
        end = time.monotonic() + PATIENCE
        while what not in self.text:
            assert select.select([self.master], [], [], max(0, end - time.monotonic()))[0], f"no {what!r} in {self.text!r}"
            try:
                self.text += os.read(self.master, 65536).decode()
            except OSError:  # the other end is closed
                raise AssertionError(f"no {what!r} before the end: {self.text!r}") from None
        before, _, self.text = self.text.partition(what)
        return before

    def say(self, text):
        os.write(self.master, text.encode())

    def end(self):
        code = self.process.wait(PATIENCE)
        os.close(self.master)
        return code


def answers(talk, words):
    """What the model says to these words, in the terminal."""
    talk.say(f"{words}\n")
    talk.until(f"{words}\r\n")
    return talk.until("> ").strip()


def check_terminal(chat):
    talk = Terminal(*chat, "--max-tokens", "5", "--temperature", "0")
    talk.until("> ")
    first = answers(talk, "Hello")
    second = answers(talk, "Hello")
    assert first and second and first != second, (first, second)  # the model has seen what was said before
    answers(talk, "/clear")
    assert answers(talk, "Hello") == first
    talk.say("\x04")
    assert talk.end() == 0


def check_ctrl_c(chat):
    talk = Terminal(*chat, "--temperature", "0")
    talk.until("> ")
    talk.say("a long one\n")
    talk.until("a long one\r\n ")
    time.sleep(0.1)
    talk.say("\x03")
    talk.until("> ")
    assert answers(talk, "/clear") == ""
    talk.say("\x03")
    assert talk.end() == 130
    for _ in range(20):  # also when it comes just before the wait for a line
        talk = Terminal(*chat)
        talk.until("> ")
        talk.say("\x03")
        assert talk.end() == 130


def check_pipe(chat):
    ask = [*chat, "--max-tokens", "5", "--temperature", "0"]
    run = subprocess.run(ask, input="Hello\n", capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0 and len(run.stdout.split()) == 5 and not run.stderr, run
    run = subprocess.run([*ask, "--model", "none"], input="Hello\n", capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 1 and "the model 'none' does not exist" in run.stderr, run
    run = subprocess.run(ask, input="", capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 1 and "no message" in run.stderr, run
    run = subprocess.run([*ask, "--temperature", "hot"], capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 2 and "--temperature hot" in run.stderr, run


def main():
    server = subprocess.Popen([sys.argv[1], "20000", "64"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        chat = [sys.argv[2], "chat", f"http://127.0.0.1:{int(server.stdout.readline())}/v1"]
        check_pipe(chat)
        check_terminal(chat)
        check_ctrl_c(chat)
    finally:
        server.stdin.close()
        code = server.wait(PATIENCE)
    assert code == 0, code
    print("gpuwire chat talks in a terminal and in a pipe")


main()
