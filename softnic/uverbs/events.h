/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event streams: what a completion channel's fd and a context's async fd deliver. The reader is the program
 * (through libibverbs' read()); the writer is the NIC, which must never wait for it.
 */
#ifndef SOFTNIC_UVERBS_EVENTS_H
#define SOFTNIC_UVERBS_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uv_stream;

/*
 * uv_stream_new - a stream of records of `record` bytes (8 or 16), each beginning with the user's 64-bit name
 * of the object it is about. *fd is the program's end. The stream lives until its last reference is put. 0 or
 * -EMFILE and the like. `owner` is kept for uv_stream_owner.
 * uv_stream_get, _put and _drain take NULL: an object that was made before its context had a stream.
 */
int uv_stream_new(size_t record, const void *owner, int *fd, struct uv_stream **out);
struct uv_stream *uv_stream_get(struct uv_stream *s);
void uv_stream_put(struct uv_stream *s);
const void *uv_stream_owner(const struct uv_stream *s);

/*
 * uv_stream_send - appends a record. Any thread; never blocks. With 64 KiB of events unread it keeps the
 * record in memory, for uv_streams_flush.
 */
void uv_stream_send(struct uv_stream *s, const void *record);

/* uv_streams_flush - delivers kept records where there is room again. Cheap when there are none, as nearly
 * always. */
void uv_streams_flush(void);

/*
 * uv_stream_drain - takes the unread records about one object out again, and returns how many that were.
 * After it the object is not mentioned again. For the caller's count of events that the program did read.
 */
uint32_t uv_stream_drain(struct uv_stream *s, uint64_t about);

/* uv_stream_close_reader - the program has closed its end: further events go nowhere. */
void uv_stream_close_reader(struct uv_stream *s);

/* uv_streams_forget - in a forked child: the streams are the parent's. */
void uv_streams_forget(void);

#endif
