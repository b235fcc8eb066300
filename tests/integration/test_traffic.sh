#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every kind of request over many queue pairs between two processes, every byte checked (tests/traffic).
# test_traffic.sh TRAFFIC SECONDS TYPES [NIC SETTINGS]   The settings are those of both sides, beside their address.
. "${0%/*}/lib.sh"
traffic=$1 seconds=$2 types=$3 more=${4:+,$4}
PAIR_TIMEOUT=$((seconds * 2 + 300))
nic=addr=$net.1$more
[ -n "${SANITIZER:-}" ] && links=16
pair traffic "$nic" "$nic" "$traffic" --seconds "$seconds" --types "$types" --links "${links:-64}" --seed "${SEED:-$RANDOM}"
cat "$work/traffic.client.out"
grep -q 'every byte right' "$work/traffic.client.out" || fail "it did not say that all was right"
nothing_left
