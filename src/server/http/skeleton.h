/* SPDX-License-Identifier: Apache-2.0 */
/* An inference request's JSON without its tensors.
 *
 * Tensors may be megabytes of numbers, and a tree of them would take many times as much memory. So the
 * elements of inputs[i].data are not parsed with the rest. In each one's place the skeleton has a number,
 * which says where in the text the value is.
 */
#ifndef GW_SERVER_HTTP_SKELETON_H
#define GW_SERVER_HTTP_SKELETON_H

#include <jansson.h>
#include <stddef.h>

#include <gpuwire/model.h>

struct gw_span {
    const char *at;
    size_t bytes;
};

struct gw_skeleton {
    json_t *json; /* an object; inputs[i].data is the number of its span */
    uint32_t spans;
    struct gw_span span[GW_MODEL_MAX_IO];
};

/* The text is followed by a zero, and stays while the spans are used. 0, or -1 and *why. */
int gw_skeleton_parse(const char *text, size_t bytes, struct gw_skeleton *out, const char **why);
void gw_skeleton_free(struct gw_skeleton *s);

#endif
