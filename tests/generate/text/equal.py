# SPDX-License-Identifier: Apache-2.0
"""Ours against the `tokenizers` package: equal.py PIPE STRINGS [SEED [FAMILY or FILE...]]. Trains small tokenizers, each built as a
family of models builds its own, or takes those of files, and compares ids and texts."""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

from tokenizers import AddedToken, Tokenizer

import families
import strings

pipe, count = sys.argv[1], int(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
names = sys.argv[4:] or sorted(families.ALL)


def ask(folder, requests):
    """Sends all requests to one process, and reads the answers: ids or bytes."""
    p = subprocess.Popen([pipe, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send():
        try:
            for how, data in requests:
                if how in "escb":
                    p.stdin.write(how.encode() + struct.pack("=I", len(data)) + data)
                else:
                    p.stdin.write(how.encode() + struct.pack(f"=I{len(data)}I", len(data), *data))
            p.stdin.close()
        except BrokenPipeError:
            pass
    t = threading.Thread(target=send)
    t.start()
    answers = []
    for how, _ in requests:
        head = p.stdout.read(4)
        if len(head) != 4:
            break
        n = struct.unpack("=I", head)[0]
        answers.append(list(struct.unpack(f"={n}I", p.stdout.read(4 * n))) if how in "escb" else p.stdout.read(n))
    t.join()
    if p.wait() or len(answers) != len(requests):
        raise SystemExit(f"FAIL: pipe ended with {p.returncode} after {len(answers)} of {len(requests)} answers")
    return answers


def texts(r, own, n):
    """Pairs: what ours gets as bytes, and what the reference gets as text."""
    while n:
        text = strings.string(r, own)
        data = text.encode() if r.random() < 0.9 else strings.spoiled(r, text)
        text = data.decode(errors="replace")
        if strings.settled(text):
            n -= 1
            yield data, text


def expected(tok, how, text):
    tok.encode_special_tokens = how in "es"
    return tok.encode(text, add_special_tokens=how in "sb").ids


def chop(r, ids, size):
    """Ids that may break characters and runs anywhere."""
    ids = ids[r.randrange(len(ids)):] if ids and r.random() < 0.5 else list(ids)
    return [r.randrange(size) if r.random() < 0.2 else i for i in ids]


def compare(name, tok, folder, r):
    own = [t.content for t in tok.get_added_tokens_decoder().values()]
    asked, want = [], []
    for data, text in texts(r, own, count // len(names) + 1):
        how = r.choice("escb")
        asked.append((how, data))
        want.append(expected(tok, how, text))
        ids = chop(r, want[-1], tok.get_vocab_size())
        how = r.choice("dD")
        asked.append((how, ids))
        want.append(tok.decode(ids, skip_special_tokens=how == "d").encode())
        asked.append(("i", want[-2]))
        want.append(tok.decode(want[-2], skip_special_tokens=True).encode())
    for (how, data), got, right in zip(asked, ask(folder, asked), want):
        if got != right:
            raise SystemExit(f"FAIL: {name} {how} {data!r}\n  ours: {got}\n  theirs: {right}\n"
                             f"  {[tok.id_to_token(i) for i in got] if how in 'escb' else ''}\n"
                             f"  {[tok.id_to_token(i) for i in right] if how in 'escb' else [tok.id_to_token(i) for i in data]}")
    return len(asked)


def main():
    for name in names:
        r = random.Random(f"{seed} {name}")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            if name in families.ALL:
                families.ALL[name](r).save(path)
            else:
                shutil.copy(name, path)
            n = compare(os.path.basename(name), Tokenizer.from_file(path), folder, r)
        print(f"{name}: {n} equal")


if __name__ == "__main__":
    main()
