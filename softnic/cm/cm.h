/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm.h: the kernel's rdma_cm interface, in this process: what opening, writing to and closing
 * /dev/infiniband/rdma_cm do (<rdma/rdma_user_cm.h>). attach/ leads librdmacm's calls here.
 *
 * The NIC is taken when a program first binds or resolves an address, and kept to the process's end. So is
 * the thread "gw-cm", which sleeps until a message comes or one has to be repeated.
 */
#ifndef SOFTNIC_CM_CM_H
#define SOFTNIC_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "softnic/nic/nic.h"

struct sn_process_callbacks;

#define SN_RDMA_CM_PATH "/dev/infiniband/rdma_cm"

/*
 * Opens the device; `flags` as for open(). An fd that poll() shows readable while there are events, or a
 * negative errno. callbacks: of the NICs that it makes, if no queue pair has made them yet; the same in every
 * call.
 */
int ucm_open(int flags, const struct sn_process_callbacks *callbacks);

/* Whether ucm_open gave this out and it is still open. Any thread, no lock, cheap. */
bool ucm_is_fd(int fd);

/* One command, as write() takes it: `bytes`, or a negative errno. Only GET_EVENT waits, unless O_NONBLOCK. */
ssize_t ucm_write(int fd, const void *buf, size_t bytes);

/* To be called before an fd is closed. Everything made through one of ours ends: connections are
 * disconnected. Other fds are none of its business. */
void ucm_close(int fd);

/*
 * For struct sn_nic_config. Processes share an address, so a process may get messages of another one. It
 * passes them on to that process, whether or not it uses rdma_cm itself.
 */
bool ucm_on_mad(void *user, const uint8_t dgid[16], const uint8_t sgid[16], int slot,
                uint8_t mad[SN_MAD_LEN]);

/* For struct sn_process_callbacks: no process takes what was sent to this address. */
void ucm_on_refused(const uint8_t gid[16], const uint8_t *frame, size_t len);

/* Around fork(): in the child everything that was opened answers with EIO, and its ports are the parent's. */
void ucm_fork_prepare(void);
void ucm_fork_parent(void);
void ucm_fork_child(void);

#endif
