/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.h: how two queue pairs meet. Host only; the device side is in gpuwire/verbs_device.h.
 *
 * Two ways, which lead to the same connected queue pair:
 *
 *   by a record: each side writes what the other needs into one printable line. The lines travel by any means
 *   there are (HTTP, ssh, a file), and each side connects with gw_qp_connect:
 *
 *     gw_record_of(qp, mr, &mine);
 *     gw_record_format(&mine, text);                       // … send it, receive theirs …
 *     if (!gw_record_parse(text, &theirs)) gw_qp_connect(qp, &theirs.ep, NULL);
 *
 *   by address and port: one side listens, the other connects; rdma_cm carries the same facts.
 *
 *     gw_cm_listen(dev, NULL, 18515, &listener); // one side
 *     gw_cm_next(listener, -1, gw_deadline(LIMIT), &request);
 *     gw_cm_accept(request, qp, NULL, &mine, -1, gw_deadline(LIMIT), &link);
 *
 *     // the other
 *     gw_cm_connect(qp, "10.0.0.2", 18515, NULL, &mine, -1, gw_deadline(LIMIT), &theirs, &link);
 *
 * Functions return 0 or a negative errno with one line in gw_last_error(); any that makes something may
 * return -ENOMEM. Deadlines are absolute times as gw_deadline makes them. Where a stop_fd is taken, the wait
 * ends with -ECANCELED once it is readable (it is not read); -1: none. Nothing here touches the executor's
 * memory but the queue pair's state, so all of it may be called while kernels run. Calls on different objects
 * may come from different threads.
 */
#ifndef GPUWIRE_CONNECT_H
#define GPUWIRE_CONNECT_H

#include <gpuwire/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- records ------------------------------------------------------------------------------------------- */

/* Memory that a peer may address. */
struct gw_region {
    uint64_t addr;
    uint64_t length; /* bytes; 0: no region */
    uint32_t rkey;
};

struct gw_record {
    struct gw_endpoint ep;
    struct gw_region region;
};
#define GW_RECORD_TEXT 160 /* bytes that always hold its text, with the final zero */

/* The record of a queue pair and a region (NULL: none). After gw_qp_reset make a new one: the PSN is another.
 */
GW_API void gw_record_of(const struct gw_qp *qp, const struct gw_mr *mr, struct gw_record *record);

/*
 * An endpoint's text (gw_endpoint_format) and, when there is a region, `:ADDR:LENGTH:RKEY` in hexadecimal
 * after it: gw:1:GID:QPN:PSN:MTU:LID[:ADDR:LENGTH:RKEY] Letters, digits and colons only, no newline.
 */
GW_API void gw_record_format(const struct gw_record *record, char text[GW_RECORD_TEXT]);

/*
 * Reads such a text and nothing else: no blanks, no newline, nothing after it. Any text is safe to pass.
 * -EPROTONOSUPPORT: a record of another version; -EINVAL: not of that form, or a value out of range. *record
 * is then unchanged. That the text is well-formed says nothing about whether such a queue pair exists.
 */
GW_API int gw_record_parse(const char *text, struct gw_record *record);

/* ---- by address and port ------------------------------------------------------------------------------- */

struct gw_listener; /* an address and a port */
struct gw_request;  /* a peer that wants to connect */
struct gw_link;     /* a connection: what rdma_cm knows about it, beside the queue pair */

#define GW_CM_DATA 28 /* bytes */

/* Each side tells the other this while they connect. */
struct gw_offer {
    struct gw_region region;  /* length 0: none */
    uint32_t data_len;        /* up to GW_CM_DATA */
    uint8_t data[GW_CM_DATA]; /* the program's own */
};

/*
 * Listens. address: numeric IPv4 or IPv6, or a name; NULL: the device's own. port 0: any free one.
 *
 *   `-ENOENT`         no such host.
 *   `-EADDRINUSE`     another program listens there.
 *   `-EADDRNOTAVAIL`  no device has that address.
 *   `-EXDEV`          another device has it.
 *   `-ENODEV`         no rdma_cm on this machine (`modprobe rdma_ucm`).
 */
GW_API int gw_cm_listen(struct gw_device *dev, const char *address, uint16_t port, struct gw_listener **out);
GW_API uint16_t gw_cm_port(const struct gw_listener *listener);
/* Requests that were not taken are refused. NULL is allowed. */
GW_API void gw_cm_unlisten(struct gw_listener *listener);

/*
 * The next request, which gw_cm_accept or gw_cm_refuse must end.
 *
 *   `-ETIMEDOUT`, `-ECANCELED`  none came.
 *   `-EPROTO`                   a peer that does not speak this, or another version of it, was turned away
 *                               and told why: call again.
 *   `-EXDEV`                    the same of a peer that came by another device.
 *   `-EMFILE`                   the same, because there is no file descriptor for a connection.
 *   `-ENODEV`                   the device has been removed.
 */
GW_API int gw_cm_next(struct gw_listener *listener, int stop_fd, uint64_t deadline_ns,
                      struct gw_request **out);
GW_API const struct gw_offer *gw_cm_offer(const struct gw_request *request);
/* The peer's numeric address; lives as long as the request. */
GW_API const char *gw_cm_peer(const struct gw_request *request);

/*
 * Connects the queue pair (fresh or reset) to the peer that asked, and waits until it has confirmed. mine may
 * be NULL. Ends the request, also when it fails; after a failure the queue pair needs gw_qp_reset. (Seven
 * arguments: no kernel calls it, and what is not wanted is NULL.)
 *
 *   `-ETIMEDOUT`, `-ECANCELED`       as above.
 *   `-EXDEV`                         the peer asked another NIC than the queue pair's.
 *   `-ECONNRESET`                    the peer is gone.
 *   `-ECONNREFUSED`, `-EPROTO`       it does not confirm.
 *   `-EHOSTUNREACH`, `-ENETUNREACH`  the way there is lost.
 *   `-ENODEV`                        the device has been removed.
 *   `-EINVAL`                        an option is out of range, or it is a UD queue pair.
 */
GW_API int gw_cm_accept(struct gw_request *request, struct gw_qp *qp, const struct gw_connect_opts *opts,
                        const struct gw_offer *mine, int stop_fd, uint64_t deadline_ns, struct gw_link **out);

/* Turns the peer away; it reads `why` (up to 120 bytes of plain text; NULL: none). Ends the request. */
GW_API void gw_cm_refuse(struct gw_request *request, const char *why);

/*
 * Connects the queue pair to the program that listens at host and port; *theirs (may be NULL) becomes that
 * side's offer. Receives may be posted before. Both sides get the smaller MTU of their options. After a
 * failure reset the queue pair (gw_qp_reset): it needs that if the peer has answered. (Nine arguments, for
 * the same reason.)
 *
 *   `-ECONNREFUSED`                  the peer does not listen there, or refuses: the line has its reason.
 *   `-ECONNRESET`                    the peer gave up during the call.
 *   `-EHOSTUNREACH`, `-ENETUNREACH`  no way there.
 *   `-ETIMEDOUT`, `-ECANCELED`       no answer before the deadline, or before stop_fd.
 *   `-EPROTO`                        the peer answers and does not speak this.
 *   `-ENOENT`                        no such host.
 *   `-EXDEV`                         the way there is not through the queue pair's device.
 *   `-ENODEV`                        that has been removed.
 *   `-EADDRNOTAVAIL`                 rdma_cm takes none of the device's addresses.
 *   `-EINVAL`                        an option is out of range, or it is a UD queue pair.
 */
GW_API int gw_cm_connect(struct gw_qp *qp, const char *host, uint16_t port,
                         const struct gw_connect_opts *opts, const struct gw_offer *mine, int stop_fd,
                         uint64_t deadline_ns, struct gw_offer *theirs, struct gw_link **out);

/* Waits for the peer to end the connection: 1 it has, 0 the deadline has passed (in the past: just looks),
 * -ECANCELED. A peer that dies silently is noticed by the queue pair (gw_qp_fault), not here. */
GW_API int gw_cm_ended(struct gw_link *link, int stop_fd, uint64_t deadline_ns);

/* Tells the peer that the connection is over and frees the link; never waits. The queue pair stays as it is:
 * the program takes it down (gw_qp_abort, gw_qp_reset, gw_qp_destroy). NULL is allowed. */
GW_API void gw_cm_close(struct gw_link *link);

#ifdef __cplusplus
}
#endif

#endif
