#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire hwcheck between two NICs of this machine, with a script in ssh's place.
. "$(dirname "$0")/../integration/lib.sh"
need jq
export GPUWIRE_DEVICE=softnic GPUWIRE_NIC=addr=$net.1
cat >"$work/ssh" <<END
#!/bin/sh
[ "\$1" = there.example ] && GPUWIRE_NIC=addr=$net.2 exec sh -c "\$2"
[ "\$1" = denied.example ] && echo "denied.example: Permission denied (publickey)." >&2 && exit 255
echo "ssh: no such host" >&2
exit 255
END
chmod +x "$work/ssh"
hwcheck() { timeout -k 5 $((2 * patience)) "$GPUWIRE" hwcheck --ssh "$work/ssh" --remote "$GPUWIRE" --address "$net.2" -o "$work/report.json" "$@"; }

hwcheck --quick there.example >"$work/quick.out" 2>&1 || fail "exit code $?"
jq -e '(.results | length) >= 16 and all(.results[]; .ok) and all(.results[] | select(.kind != "placement"); .rows[0].operations > 0)
       and ([.results[] | select(.kind == "conformance" and (.name | startswith("bw"))) | .rows[0].checked_bytes > 0] | all)
       and .here.kernel == .there.kernel and (.here.libibverbs | startswith("libibverbs.so"))' "$work/report.json" >/dev/null ||
    fail "the report is not what it should be"
tr -d ' \n' <"$work/report.json" | grep -q '^{"summary":' || fail "the summary does not come first"
jq -r '.summary[]' "$work/report.json" | grep -q 'checks passed' || fail "no summary"
# Kernels look at what comes while they poll, and it is said how requests reach the NIC. The ACK timeout is not set.
jq -e '[.results[] | select(.name | startswith("lat") and endswith("--verify")) | .rows[0] | .checked_bytes > 0 and .wrong_bytes == 0] == [true, true, true, true]
       and ([.results[] | select(.name | startswith("bw -o masked")) | .ok] == [true, true])
       and ([.results[] | select(.kind == "placement") | .said] == ["here direct, buffers in host memory; there direct, buffers in host memory"])
       and (.here | .PCI.ACS and .settings and has("GPU writes") and has("in a container"))' "$work/report.json" >/dev/null ||
    fail "what is said of the ways, and facts"
jq -r '.summary[]' "$work/report.json" | grep -q '0 fell back' || fail "nothing has fallen back"
# A way round is visible, and no pass.
GPUWIRE_POST=proxy-doorbell hwcheck --only 'bw -o put -s 64k' there.example >"$work/round.out" 2>&1 || fail "a way round: exit code $?"
grep -q '^FELL BACK posting and buffers, cpu: here proxy-doorbell.*GPUWIRE_POST=proxy-doorbell; `gpuwire info` there says why' "$work/round.out" &&
    grep -q '^1 of 2 checks passed, 0 skipped, 1 fell back' "$work/round.out" || fail "a way round is not seen"
GPUWIRE_POST=proxy-post hwcheck --only masked there.example >"$work/masked.out" 2>&1 || fail "no masked atomics: exit code $?"
grep -q '^skipped bw -o masked_add' "$work/masked.out" || fail "no masked atomics: $(cat "$work/masked.out")"
# Nothing of it says where it was.
grep -qF -e "$net" -e there.example -e "$(uname -n)" "$work/report.json" && fail "the report names hosts or addresses"

# One check that fails is a line and an exit code, and there is a report of all; nothing of the line says where either.
GPUWIRE_NIC=addr=$net.2 timeout -k 5 $((2 * patience)) "$GPUWIRE" perf bw --exec cpu -p 18607 >"$work/other.out" 2>&1 &
other=$!
pids+=($other)
wait_for "$work/other.out" 'waiting for a client' $other || fail 'the other one does not listen'
hwcheck --quick -p 18605 there.example >"$work/failing.out" 2>&1
[ $? = 1 ] || fail "a port in use: exit code"
jq -e '[.results[] | select(.ok | not) | .said | test("cannot listen at \\*+, port 18607")] == [true]' "$work/report.json" >/dev/null ||
    fail "a port in use: the report"
grep -qF "$net" "$work/report.json" && fail "a failure's line names an address"
kill $other
wait $other
hwcheck nowhere.example >"$work/nowhere.out" 2>&1
[ $? = 1 ] && grep -q 'no such host' "$work/nowhere.out" && [ "$(wc -l <"$work/nowhere.out")" = 1 ] || fail "no way there"
hwcheck denied.example >"$work/denied.out" 2>&1
[ $? = 1 ] && grep -q 'Permission denied' "$work/denied.out" && [ "$(wc -l <"$work/denied.out")" = 1 ] || fail "not let in there"
hwcheck -o "$work/none/report.json" there.example >"$work/unwritten.out" 2>&1
[ $? = 1 ] && grep -q 'none/report.json.*No such file' "$work/unwritten.out" && [ "$(wc -l <"$work/unwritten.out")" = 1 ] ||
    fail "no place for the report"
# A network that does not lead there: one check says so, and the others do not wait for the same.
hwcheck --only put --address no..host there.example >"$work/astray.out" 2>&1
[ $? = 1 ] && [ "$(grep -c '^FAILED' "$work/astray.out")" = 1 ] && grep -q '^FAILED.*UDP port 4791' "$work/astray.out" &&
    grep -q '^skipped.*did not get through' "$work/astray.out" ||
    fail "an address that leads nowhere"
timeout -k 5 "$patience" "$GPUWIRE" hwcheck --ssh "$work/ssh" --remote "$GPUWIRE" --address "$net.2" -o "$work/cut.json" there.example \
    >"$work/cut.out" 2>&1 &
hw=$!
pids+=("$hw")
wait_for "$work/cut.out" '^ok' "$hw" || fail 'no check ends well'
kill -INT "$(pgrep -P $hw -x gpuwire)"
wait $hw
[ $? = 130 ] && jq -e .interrupted "$work/cut.json" >/dev/null || fail "Ctrl-C"

# Each NIC here with each there: two of both, which the preloaded NIC shows as the kernel would.
cat >"$work/ssh2" <<END
#!/bin/sh
unset LD_PRELOAD
exec $(printf '%q ' "${gpuwire[@]}")run --nic "addr=$net.2;addr=$net.4" -- sh -c "\$2"
END
chmod +x "$work/ssh2"
(
    unset GPUWIRE_DEVICE
    timeout -k 5 $((2 * patience)) "${gpuwire[@]}" run --nic "addr=$net.1;addr=$net.3" -- "$GPUWIRE" hwcheck --ssh "$work/ssh2" --remote "$GPUWIRE" \
        --address "$net.2" -o "$work/each.json" --only each there.example >"$work/each.out" 2>&1
) || fail "each NIC: $(cat "$work/each.out")"
jq -e '[.results[] | select(.kind == "each" and .ok) | .NICs | join(" ")] == ["mlx5_0 mlx5_0", "mlx5_0 mlx5_1", "mlx5_1 mlx5_0", "mlx5_1 mlx5_1"]' \
    "$work/each.json" >/dev/null || fail "each NIC: $(cat "$work/each.out")"
grep -qF "$net" "$work/each.json" && fail "a report of NICs names their addresses"

# The programs beside the tool, and a tool beside which there are none.
programs() { # TOOL: which checks passed, and which were skipped
    timeout -k 5 $((2 * patience)) "$1" hwcheck --ssh "$work/ssh" --remote "$GPUWIRE" -o "$work/programs.json" --only test_verbs_ there.example \
        >"$work/programs.out" 2>&1 || fail "test programs: exit code $?"
    jq -r '.results[] | select(.executor == "cpu") | if .ok then "ok \(.name)" elif .skipped then "skipped \(.name)" else "?" end' \
        "$work/programs.json" | sort | tr '\n' ' '
}
names='datagram differential errors loopback stress wait'
all=$(programs "$GPUWIRE")
mkdir -p "$work/else/bin" "$work/else/lib" && cp "$GPUWIRE" "$work/else/bin/" && cp -L "${GPUWIRE%/*}"/../lib/libgpuwire-softnic.so "$work/else/lib/"
alone=$(programs "$work/else/bin/gpuwire")
if [ -x "${GPUWIRE%/*}/test_verbs_wait" ]; then
    [ "$all" = "$(printf 'ok test_verbs_%s ' $names)" ] || fail "test programs: $all"
fi
[ "$alone" = "$(printf 'skipped test_verbs_%s ' $names)" ] || fail "no test programs: $alone"
jq -r '.summary[]' "$work/programs.json" | grep -q '^0 of 6 checks passed, 6 skipped, 0 fell back' || fail "skipped: the summary"
jq -r '.summary[]' "$work/programs.json" | grep -q 'skipped test_verbs_wait, cpu: it is not installed with gpuwire' || fail "skipped: why"

# The programs are run on the device that the other checks use.
printf '#!/bin/sh\necho "on [$GPUWIRE_DEVICE]" >>%s/used\n' "$work" >"$work/else/bin/test_verbs_wait"
chmod +x "$work/else/bin/test_verbs_wait"
used() {
    timeout -k 5 $((2 * patience)) "$work/else/bin/gpuwire" hwcheck --ssh "$work/ssh" --remote "$GPUWIRE" -o "$work/used.json" \
        --only test_verbs_wait "$@" there.example >"$work/used.out" 2>&1 || fail "a test program's device: exit code $?"
}
used
(unset GPUWIRE_DEVICE && used && used -d softnic) || exit 1
[ "$(tr '\n' ' ' <"$work/used")" = "on [softnic] on [] on [softnic] " ] || fail "devices of the test programs: $(cat "$work/used")"

"$GPUWIRE" hwcheck --facts | jq -e .kernel >/dev/null || fail "--facts"
for args in "" "a b" "--remote x;y host" "-p 1 host" "--nonsense" "-- -oProxyCommand=x" "--only" "--only nosuchcheck host"; do
    # shellcheck disable=SC2086  # separate words
    "$GPUWIRE" hwcheck $args >"$work/wrong.out" 2>&1
    [ $? = 2 ] && [ "$(wc -l <"$work/wrong.out")" = 1 ] || fail "hwcheck $args"
done
nothing_left
