/* SPDX-License-Identifier: Apache-2.0 */
/* Channels' ends as text. They come from peers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <gpuwire/channel.h>

void gw_channel_end_format(const struct gw_channel_end *end, char text[GW_CHANNEL_END_TEXT])
{
    char qp[GW_ENDPOINT_TEXT];

    gw_endpoint_format(&end->qp, qp);
    snprintf(text, GW_CHANNEL_END_TEXT, "gwc:1:%" PRIx64 ":%08x:%u:%u:%s", end->addr, end->rkey, end->bytes,
             end->slots, qp);
}

int gw_channel_end_parse(const char *text, struct gw_channel_end *end)
{
    char again[GW_CHANNEL_END_TEXT];
    struct gw_channel_end e;
    int at = 0, err;

    memset(&e, 0, sizeof(e));
    if (sscanf(text, "gwc:1:%16" SCNx64 ":%8x:%8u:%8u:%n", &e.addr, &e.rkey, &e.bytes, &e.slots, &at) != 4 ||
        !at)
        return gw_error(
            -EINVAL, "not a channel's end of this version: it must start with gwc:1: and have four numbers");
    err = gw_endpoint_parse(text + at, &e.qp);
    if (err) return err;
    /* scanf also takes blanks, signs and leading zeros: what is not written back as it came is refused. */
    gw_channel_end_format(&e, again);
    if (strcasecmp(text, again) || !e.bytes || e.bytes > GW_CHANNEL_BYTES_MAX || !e.slots ||
        e.slots > GW_CHANNEL_SLOTS_MAX || e.slots & (e.slots - 1))
        return gw_error(-EINVAL, "channel's end: a number is out of range, or not written as it must be");
    *end = e;
    return 0;
}
