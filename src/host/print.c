/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that kernels have printed, in the order in which they took their places in the ring. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/host/server.h"

#define TEXT_MAX  4096
#define AT_A_TIME 256 /* then launches have their turn */

static void host_print_put(struct gw_host_server *s, const char *text, size_t n)
{
    if (s->attr.print)
        s->attr.print(s->attr.ctx, text, n);
    else
        fwrite(text, 1, n, stdout);
}

void gw_host_tell_lost(struct gw_host_server *s, uint64_t lost)
{
    char text[80];

    /* Threads read the count and take their lines in no common order: an older count may come later. */
    if ((int64_t)(lost - s->lost) <= 0) return;
    host_print_put(s, text,
                   (size_t)snprintf(text, sizeof(text), "[%" PRIu64 " lines lost: the ring was full]\n",
                                    lost - s->lost));
    gw_st_relaxed_u64(&s->lost, lost);
}

bool gw_host_prints(struct gw_host_server *s)
{
    char text[TEXT_MAX];
    uint32_t n = 0;

    for (; n < AT_A_TIME; n++) {
        struct gw_print_line_ *l = &s->line[s->printed & (s->attr.lines - 1)];

        /* Acquire: the line is read after it. */
        if (gw_ld_acquire_u32(&l->seq) != (uint32_t)s->printed + 1) break;
        gw_host_tell_lost(s, l->lost);
        host_print_put(s, text, gw_host_format(l, text, sizeof(text)));
        s->printed++;
        gw_add_relaxed_u64(&s->texts, 1);
        gw_st_release_u64(&s->page->printed, s->printed); /* release: the line may be written to again */
    }
    if (n && !s->attr.print) fflush(stdout);
    if (n) gw_helper_tell(&s->helper);
    return n != 0;
}
