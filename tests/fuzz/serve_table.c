/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions on a clock of the fuzzer's, with a way to look inside. */
#include <gpuwire/exec.h>

#include "tests/fuzz/serve_table.h"

static uint64_t fuzz_clock = 1000000000;
#define gw_deadline(ns) (fuzz_clock + (ns))
#include "src/server/lifecycle/table.c"

void table_advance(uint64_t ns)
{
    fuzz_clock += ns;
}

uint32_t table_count(struct gw_table *t, const void *connection, const char *who)
{
    uint32_t n = 0;
    for (const struct gw_table_session *s = t->first; s; s = s->next)
        n += (!connection || s->connection == connection) && (!who || !strcmp(s->who, who));
    return n;
}
