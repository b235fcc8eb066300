#!/usr/bin/env bash
# How many tests run at once. Most programs of the integration tests wait for each other; tests that keep a processor busy
# count twice (gw_busy in cmake/targets.cmake). The odd one runs beside those. Fewer leave processors idle for a fifth
# of the time.
echo $((3 * $(nproc) + 1))
