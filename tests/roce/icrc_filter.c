/* SPDX-License-Identifier: Apache-2.0 */
/* Reads packets as lines of hex, from the IP header on; prints the ICRC that each should end with, as hex. */
#include <stdio.h>
#include <string.h>

#include "src/roce/icrc.h"

int main(void)
{
    static char line[20000];
    static uint8_t p[sizeof(line) / 2];

    while (fgets(line, sizeof(line), stdin)) {
        struct roce_path path;
        size_t len = strcspn(line, "\n") / 2, n;
        uint8_t out[4];
        unsigned byte;
        int at;

        for (size_t i = 0; i < len && sscanf(line + 2 * i, "%2x", &byte) == 1; i++) p[i] = (uint8_t)byte;
        at = roce_path_of_packet(p, len, &path, &n);
        if (at < 0 || n < 16) {
            puts("-");
            continue;
        }
        roce_icrc_end(roce_icrc(&path, p + at, n), out);
        printf("%02x%02x%02x%02x\n", out[0], out[1], out[2], out[3]);
    }
    return 0;
}
