#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables and plots of docs/performance.md out of bench/results/*.csv.

    bench/figures.py            rewrites the tables between the page's markers, and docs/plots/NAME.svg
    bench/figures.py --check    writes nothing; exit code 1, with a line for each table or plot that differs

A marker is `<!-- table: NAME -->` or `<!-- plot: NAME -->`, and `<!-- end -->` closes it. NAME.csv has these columns:

    row, ours, unit, better (more, less), peer, peer_value, ratio, goal, command, machine, date, commit, note

Figures may be ranges (`169–175`). The ratio is ours divided by the peer's, and is computed where the column is empty. A goal is a
bound on the ratio (`>=0.9x`) or on our figure (`<=45`). machines.csv says what each machine is.
"""
import csv
import pathlib
import re
import sys
from math import log
from xml.sax.saxutils import escape

TREE = pathlib.Path(__file__).resolve().parent.parent
RESULTS, PAGE, PLOTS = TREE / "bench/results", TREE / "docs/performance.md", TREE / "docs/plots"
MARKED = re.compile(r"(<!-- (table|plot): (\S+) -->\n).*?(<!-- end -->)", re.S)
COLUMNS = "row ours unit better peer peer_value ratio goal command machine date commit note".split()


def rows_of(name):
    with open(RESULTS / f"{name}.csv", newline="", encoding="utf-8") as f:
        reader = csv.DictReader(f)
        if reader.fieldnames != COLUMNS:
            sys.exit(f"bench/results/{name}.csv: the columns must be {','.join(COLUMNS)}")
        rows = list(reader)
    for row in rows:
        if row["better"] not in ("more", "less"):
            sys.exit(f"bench/results/{name}.csv: {row['row']}: better is {row['better']!r}, neither more nor less")
        if not row["ratio"] and row["peer_value"] and row["ours"]:
            ours, peer = bounds(row["ours"]), bounds(row["peer_value"])
            low, high = ours[0] / peer[1], ours[1] / peer[0]
            row["ratio"] = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g}–{high:.2g}"
    return rows


def bounds(text):
    """The smallest and the largest number of a figure or a range."""
    numbers = [float(n.replace(",", "")) for n in re.findall(r"[\d.,]*\d", text)]
    return min(numbers), max(numbers)


def verdict(row):
    """met, partly or **missed** beside a goal; **slower** where there is none and the peer is better."""
    goal = re.fullmatch(r"([<>]=)([\d.]+)(x?)", row["goal"])
    value = row["ratio"] if not goal or goal[3] else row["ours"]
    if not value:
        return ""
    low, high = bounds(value)
    if goal:
        ok = [v >= float(goal[2]) if goal[1] == ">=" else v <= float(goal[2]) for v in (low, high)]
        return "met" if all(ok) else "partly met" if any(ok) else "**missed**"
    return "**slower**" if (high < 1 if row["better"] == "more" else low > 1) else ""


def shown(number, unit):
    if re.fullmatch(r"\d{4,}", number):
        number = f"{int(number):,}"
    return f"{number} {unit}".strip() if number else ""


def goal_text(row):
    return row["goal"].replace(">=", "≥ ").replace("<=", "≤ ").replace("x", " ×")


def table(name):
    if name == "machines":
        with open(RESULTS / "machines.csv", newline="", encoding="utf-8") as f:
            lines = [f"| {' | '.join(row)} |" for row in csv.reader(f)]
        return "\n".join([lines[0], "|---|---|", *lines[1:]]) + "\n"
    rows = rows_of(name)
    one_command = len({r["command"] for r in rows}) == 1
    columns = [("what", lambda r: r["row"])]
    if any(r["ours"] for r in rows):
        columns += [("ours", lambda r: shown(r["ours"], r["unit"]))]
    if any(r["peer"] for r in rows):
        columns += [("beside it", lambda r: r["peer"] + (": " if r["peer_value"] else "") + shown(r["peer_value"], ""))]
        columns += [("ratio", lambda r: r["ratio"])]
    if any(r["goal"] for r in rows):
        columns += [("goal", goal_text)]
    if any(map(verdict, rows)):
        columns += [("", verdict)]
    if not one_command:
        columns += [("printed by", lambda r: f"`{r['command']}`")]
    if any(r["note"] for r in rows):
        columns += [("note", lambda r: r["note"])]
    facts = [f"Machine: {rows[0]['machine']}."]
    if one_command:
        facts += [f"Command: `{rows[0]['command']}`."]
    dates = sorted({r["date"] for r in rows})
    commits = sorted({r["commit"] for r in rows})
    facts += [f"Recorded on {' and '.join(dates)}, commit{'s' * (len(commits) > 1)} {', '.join(commits)}."]
    lines = ["| " + " | ".join(title for title, _ in columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cell(r).replace("|", "\\|") for _, cell in columns) + " |" for r in rows]
    return " ".join(facts) + "\n\n" + "\n".join(lines) + "\n"


def plot(name):
    """An SVG of how many times as good as its peer each row is; the line is at 1."""
    bars = []
    for row in rows_of(name):
        if row["ratio"]:
            mid = sum(bounds(row["ratio"])) / 2
            bars.append((re.sub("`", "", f"{row['row']} : {row['peer']}"), mid if row["better"] == "more" else 1 / mid))
    low, high = min(0.5, *(v for _, v in bars)), max(2.0, *(v for _, v in bars))

    def x(value):
        return 520 + 360 * log(value / low) / log(high / low)

    height = 30 + 22 * len(bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="960" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, (label, value) in enumerate(bars):
        y, left, right = 10 + 22 * i, min(x(1), x(value)), max(x(1), x(value))
        out += [f'<text x="510" y="{y + 13}" text-anchor="end">{escape(label)}</text>',
                f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="16" fill="{"#4a7" if value >= 1 else "#c54"}"/>',
                f'<text x="{right + 4:.1f}" y="{y + 13}">{value:.2f}</text>']
    out += [f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="4" y2="{height - 20}" stroke="black"/>',
            f'<text x="{x(1):.1f}" y="{height - 6}" text-anchor="middle">times as good as the peer (logarithmic)</text>', "</svg>"]
    return "\n".join(out) + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    page, wrong, used = PAGE.read_text(encoding="utf-8"), [], set()

    def fill(match):
        kind, name = match[2], match[3]
        if kind == "table":
            used.add(name)
            body = table(name)
        else:
            file, svg = PLOTS / f"{name}.svg", plot(name)
            body = f"![How many times as good as its peer each row is](plots/{name}.svg)\n"
            if check and (not file.exists() or file.read_text(encoding="utf-8") != svg):
                wrong.append(f"docs/plots/{name}.svg differs from bench/results/{name}.csv")
            if not check:
                PLOTS.mkdir(exist_ok=True)
                file.write_text(svg, encoding="utf-8")
        if check and match[0] != match[1] + body + match[4]:
            wrong.append(f"docs/performance.md: the {kind} of {name} differs from bench/results/{name}.csv")
        return match[1] + body + match[4]

    made = MARKED.sub(fill, page)
    wrong += [f"bench/results/{f.name}: no table of docs/performance.md shows it" for f in sorted(RESULTS.glob("*.csv")) if f.stem not in used]
    if not check:
        PAGE.write_text(made, encoding="utf-8")
    for line in wrong:
        print(line + ("; run bench/figures.py" if "differs" in line else ""), file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
