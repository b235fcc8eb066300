# SPDX-License-Identifier: Apache-2.0
# A data plane outlives its control plane, and a control plane that lives starts another data plane. So a test's balancers end in
# this order, however the test ends. Sourced after tests/integration/lib.sh.

# end_balancers: those whose configuration lies in this test's folder.
end_balancers() {
    local kind p word
    for kind in "balance --config $work/" "balance plane --config $work/"; do
        for p in /proc/[0-9]*; do
            mapfile -d '' -t word 2>/dev/null <"$p/cmdline" || continue
            [[ "${word[*]}" == *" $kind"* ]] && kill -KILL "${p#/proc/}"
        done
    done
}
trap 'clean_up; end_balancers' EXIT
# A script that is killed, or a shell that crashes, runs no trap.
(trap '' INT TERM; tail -f /dev/null --pid=$$; end_balancers) >/dev/null 2>&1 & disown
