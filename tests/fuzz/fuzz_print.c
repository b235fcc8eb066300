/* SPDX-License-Identifier: Apache-2.0 */
/* A line of a kernel's printing, of any bytes: its text ends within the room there is. */
#include <stdlib.h>
#include <string.h>

#include "src/host/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_print_line_ l;
    size_t room, n;
    char *to;

    if (size < 2) return 0;
    room = 1 + (size_t)data[0] * 16 + data[1] % 16;
    memset(&l, 0, sizeof(l));
    memcpy(&l, data + 2, size - 2 < sizeof(l) ? size - 2 : sizeof(l));
    to = malloc(room);
    n = gw_host_format(&l, to, room);
    if (n >= room || strlen(to) > n) abort();
    free(to);
    return 0;
}
