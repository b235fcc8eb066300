#!/usr/bin/env bash
# How many tests run at once. Most programs of the integration tests wait for each other; tests that keep a processor busy
# count twice (gw_busy in cmake/targets.cmake). The odd one runs beside those. With 2 for each
# processor they were idle for a fifth of the time (make check jobs=5, on two).
echo $((3 * $(nproc) + 1))
