/* SPDX-License-Identifier: Apache-2.0 */
/* The access log: a line of JSON for each inference that came by a door, and for each RDMA session that
 * opened or closed. A thread of its own writes them. Callers copy a line into a buffer, and never wait for a
 * disk or a pipe. The log drops a line that finds no room, and counts it. Any thread may log. */
#ifndef GW_DOOR_ACCESS_H
#define GW_DOOR_ACCESS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct gw_access;

#define GW_ACCESS_LINE 4096u             /* bytes of a line at most */
#define GW_ACCESS_ROOM ((size_t)1 << 20) /* of lines that wait to be written: enough for a server */

/* One inference. Strings may be strangers'; NULL leaves the field out. */
struct gw_access_request {
    const char *client, *door, *model, *id, *error;
    unsigned version; /* of the model that answered; 0: none did */
    uint32_t rows;    /* samples; 0: it is not known */
    unsigned status;  /* as the door numbers it */
    uint64_t in, out; /* bytes of the body or message, and of its answer's */
    uint64_t queue_ns, compute_ns, total_ns;
};

/* An RDMA session has opened, or closed. */
struct gw_access_session {
    const char *client, *model, *session;
    unsigned version;
    const char *reason; /* why it closed; NULL: it has opened */
    uint64_t requests, lasted_ns;
};

/* Appends to the file at `path`, which it makes when there is none; "-" is standard output. `room` is what
 * the buffer holds, in bytes. 0 or a negative errno with the reason in gw_last_error(). */
int gw_access_open(const char *path, size_t room, struct gw_access **out);
/* The same for another log than a door's: `option` names it in messages, in place of --access-log. */
int gw_access_open_as(const char *option, const char *path, size_t room, struct gw_access **out);
/* Writes what there is, for a fifth of a second at most. NULL is allowed. */
void gw_access_close(struct gw_access *a);
/* Opens the file's name again, once the lines until now are written: the old file was moved away. */
void gw_access_reopen(struct gw_access *a);

/* NULL as the log: nothing happens. Requests that were not answered, and sessions without any, have a line
 * while their client's share lasts (access_share.h). One line a second says how many were left out. */
void gw_access_log(struct gw_access *a, const struct gw_access_request *r);
void gw_access_log_session(struct gw_access *a, const struct gw_access_session *s);
/* Any line, which has the time and then what is in the object; the reference stays the caller's. NULL as the
 * log: nothing happens. */
void gw_access_json(struct gw_access *a, const json_t *line);
/* Lines that were lost or left out so far. 0 for NULL. */
uint64_t gw_access_dropped(const struct gw_access *a);

#endif
