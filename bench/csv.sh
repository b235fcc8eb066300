# shellcheck shell=bash
# Sourced by the benchmark scripts. With CSV=FILE they append each row to FILE, in the columns that bench/figures.py reads.
# MACHINE names the machine as bench/results/machines.csv does.

# csv_row "WHAT : PEER" OURS UNIT BETTER PEER_VALUE GOAL COMMAND. BETTER: + more is better, - less is. PEER_VALUE and GOAL may be -.
csv_row() {
    [ -n "${CSV:-}" ] || return 0
    local what=${1%% : *} peer=${1##* : } better=more goal= ours value=
    printf -v ours %.3f "$2"
    [ "$5" = - ] || printf -v value %.3f "$5"
    [ "$5" = - ] && what=$1 peer=
    [ "$4" = - ] && better=less
    [ "$6" = - ] || { goal=$([ "$4" = - ] && echo '<=' || echo '>=')$6; [ "$5" = - ] || goal+=x; }
    [ -s "$CSV" ] || echo "row,ours,unit,better,peer,peer_value,ratio,goal,command,machine,date,commit,note" >"$CSV"
    echo "\"$what\",$ours,$3,$better,\"$peer\",$value,,$goal,$7,${MACHINE:-},$(date -I),$(git rev-parse --short HEAD 2>/dev/null)," >>"$CSV"
}
