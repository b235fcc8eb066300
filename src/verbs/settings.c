/* SPDX-License-Identifier: Apache-2.0 */
/* The environment's settings of paths through the network, for programs that do not set them themselves. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/verbs/settings.h"

#include <gpuwire/error.h>

/* Decimal, or hexadecimal with 0x. Unset and empty: *value stays as it is. */
static int verbs_settings_read_number(const char *name, int from, int to, int *value)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text) return 0;
    errno = 0;
    long n = strtol(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
    if (*end || end == text || errno || n < from || n > to)
        return gw_error(-EINVAL, "%s=%s: it must be a number from %d to %d", name, text, from, to);
    *value = (int)n;
    return 0;
}

int gw_settings_read(struct gw_settings *s)
{
    int err;

    *s = (struct gw_settings){.gid_index = -1, .pkey = -1, .flush = -1, .timeout = GW_ACK_TIMEOUT};
    err = verbs_settings_read_number("GPUWIRE_GID_INDEX", 0, 255, &s->gid_index);
    if (!err) err = verbs_settings_read_number("GPUWIRE_PKEY", 1, 0xffff, &s->pkey);
    if (!err) err = verbs_settings_read_number("GPUWIRE_SL", 0, 15, &s->sl);
    if (!err) err = verbs_settings_read_number("GPUWIRE_TC", 0, 255, &s->tc);
    if (!err) err = verbs_settings_read_number("GPUWIRE_TIMEOUT", 1, 31, &s->timeout);
    if (!err) err = verbs_settings_read_number("GPUWIRE_GRH", 0, 1, &s->grh);
    if (!err) err = verbs_settings_read_number("GPUWIRE_RELAXED_ORDERING", 0, 1, &s->relaxed);
    if (!err) err = verbs_settings_read_number("GPUWIRE_GPU_FLUSH", 0, 1, &s->flush);
    s->has_timeout = getenv("GPUWIRE_TIMEOUT") && *getenv("GPUWIRE_TIMEOUT");
    return err;
}
