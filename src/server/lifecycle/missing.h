/* SPDX-License-Identifier: Apache-2.0 */
/* Models that the repository has and that are not served, with the reason: for those who ask which models
 * there are. */
#ifndef GW_SERVER_LIFECYCLE_MISSING_H
#define GW_SERVER_LIFECYCLE_MISSING_H

#include <stddef.h>

#define GW_MISSING_MAX 64

struct gw_missing {
    struct gw_missing_model {
        char *name;
        unsigned version; /* 0: none */
        char *why;        /* ASCII */
    } model[GW_MISSING_MAX];
    size_t count;
};

/* A second note of a name takes the place of the first. Notes beyond GW_MISSING_MAX get lost. */
void gw_missing_note(struct gw_missing *m, const char *name, unsigned version, const char *why);
void gw_missing_forget(struct gw_missing *m, const char *name);
void gw_missing_free(struct gw_missing *m);

#endif
