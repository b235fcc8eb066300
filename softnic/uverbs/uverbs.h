/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's uverbs interface, in this process: opening, mapping and closing the character device, and its
 * one ioctl. attach/ leads the libraries' calls here; the objects below are the ones of softnic/nic/nic.h.
 */
#ifndef SOFTNIC_UVERBS_UVERBS_H
#define SOFTNIC_UVERBS_UVERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct sn_process_callbacks;
struct sn_tree_info;

#define UV_MAX_NICS 16

/* uv_tree_info - what GPUWIRE_NIC says of the devices' addresses: how many there are (up to UV_MAX_NICS), or
 * a negative errno, with a line on stderr. */
int uv_tree_info(struct sn_tree_info *nics);

/* uv_open - opens a device, by its number; `flags` as for open(). A file descriptor that only the calls below
 * understand.
 */
int uv_open(int flags, unsigned index);

/* uv_is_command_fd - whether uv_open gave this out and it is still open. Any thread, no lock, cheap. */
bool uv_is_command_fd(int fd);

/*
 * uv_adopt - whether a fd that is not known is a copy, by dup() or the like, of one that uv_open gave out. If
 * so, it is known from now on. A program imports a device by such a copy.
 */
bool uv_adopt(int fd);

/* uv_ioctl - one request on a command fd; `arg` is the caller's pointer, and is not trusted. 0 or a negative
 * errno. */
int uv_ioctl(int fd, unsigned long request, uint64_t arg);

/* uv_mmap - maps a doorbell page. On success *at is its address in this process. 0 or a negative errno. */
int uv_mmap(int fd, void *hint, size_t length, int prot, int flags, uint64_t offset, void **at);

/*
 * uv_close - to be called before an fd is closed. For a command fd everything made through it is destroyed;
 * for an event fd events stop. Other fds are none of its business.
 */
void uv_close(int fd);

/* uv_callbacks - of the NICs of this process, for all modules that make them. */
extern const struct sn_process_callbacks uv_callbacks;

/* uv_open_files - how many command fds are open. */
int uv_open_files(void);

/* uv_context_in - the context in libibverbs' struct verbs_context, of whatever release; NULL: of an unknown
 * form. */
struct ibv_context *uv_context_in(void *verbs_context);

/*
 * uv_context_ready - libmlx5 has filled in (a part of) a context's entry points. The first request that the
 * context makes afterwards puts ours in front of posting and polling: by then they are complete.
 */
void uv_context_ready(struct ibv_context *ctx);

/* Around fork(): the child has no NIC thread, so what it inherited answers with EIO from then on. */
void uv_fork_prepare(void);
void uv_fork_parent(void);
void uv_fork_child(void);

#endif
