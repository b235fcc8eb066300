#!/usr/bin/env bash
# How many tests run at once. Most programs of the integration tests wait for each other; tests that keep a processor busy
# count twice (gw_busy in cmake/targets.cmake). The odd one runs beside those.
echo $((2 * $(nproc) + 1))
