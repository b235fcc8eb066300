/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses HTTP calls whose length a proxy may have understood in another way. */
#include "src/door/framing.h"

#include <string.h>
#include <strings.h>

/* Reads from the headers where the body ends, and which server they name. */
struct framing {
    const char *length;
    unsigned hosts, codings;
    int wrong; /* two lengths that differ */
    int odd;   /* a name that others may read as another one */
};

static enum MHD_Result look_at_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct framing *f = arg;
    (void)kind;
    if (!*name || name[strcspn(name, " \t\r\n\v\f:")]) f->odd = 1;
    if (!strcasecmp(name, "Host")) f->hosts++;
    if (!strcasecmp(name, "Transfer-Encoding")) f->codings++;
    if (!strcasecmp(name, "Content-Length")) {
        if (f->length && strcmp(f->length, value ? value : "")) f->wrong = 1;
        f->length = value ? value : "";
    }
    return MHD_YES;
}

/* A proxy before us may have understood another of two ends: then the rest would be another client's call. */
const char *gw_http_framing(struct MHD_Connection *c)
{
    struct framing f = {0};
    MHD_get_connection_values(c, MHD_HEADER_KIND, look_at_header, &f);
    if (f.odd) return "the call has a header whose name has a space";
    if (f.hosts > 1) return "the call has two headers Host";
    if (f.wrong) return "the call has two headers Content-Length, which differ";
    if (f.length && f.codings) return "the call has both Content-Length and Transfer-Encoding";
    return f.codings > 1 ? "the call has two headers Transfer-Encoding" : NULL;
}
