/* SPDX-License-Identifier: Apache-2.0 */
/* Inflates compressed bodies while they arrive. */
#include "src/door/inflate.h"

#include <stdlib.h>
#include <strings.h>
#include <zlib.h>

#define ANY_HEADER (32 + MAX_WBITS) /* zlib finds out which of its two formats it is */

struct gw_inflate {
    z_stream z;
    int over;
    unsigned char out[16 << 10];
};

int gw_inflate_open(const char *encoding, struct gw_inflate **out)
{
    *out = NULL;
    if (!encoding || !strcasecmp(encoding, "identity")) return 1;
    if (strcasecmp(encoding, "gzip") && strcasecmp(encoding, "deflate")) return 0;
    struct gw_inflate *z = calloc(1, sizeof(*z));
    if (!z || inflateInit2(&z->z, ANY_HEADER) != Z_OK) {
        free(z);
        return -1;
    }
    *out = z;
    return 1;
}

int gw_inflate_piece(struct gw_inflate *z, const void *data, size_t bytes,
                     void (*take)(void *ctx, const char *data, size_t bytes), void *ctx)
{
    z->z.next_in = (unsigned char *)data; /* which it only reads */
    z->z.avail_in = (unsigned)bytes;
    while (z->z.avail_in || !z->z.avail_out) {
        if (z->over) return -1; /* something follows the end */
        z->z.next_out = z->out;
        z->z.avail_out = sizeof(z->out);
        int err = inflate(&z->z, Z_NO_FLUSH);
        if (err != Z_OK && err != Z_STREAM_END && err != Z_BUF_ERROR) return -1;
        take(ctx, (const char *)z->out, sizeof(z->out) - z->z.avail_out);
        z->over = err == Z_STREAM_END;
        if (z->over && !z->z.avail_in) break;
        if (err == Z_BUF_ERROR) break;
    }
    return 0;
}

int gw_inflate_over(const struct gw_inflate *z)
{
    return z->over;
}

void gw_inflate_free(struct gw_inflate *z)
{
    if (!z) return;
    inflateEnd(&z->z);
    free(z);
}
