/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software NIC: an RDMA device, mlx5_0, that this process's own libibverbs and libmlx5 find and drive as
 * if it were a ConnectX. Link with libgpuwire-softnic, or load it at run time. Or run a whole program on it
 * unchanged: `gpuwire run -- PROGRAM` preloads the library, which then installs itself.
 *
 * GPUWIRE_NIC configures it: a comma-separated list of key=value (docs/softnic-config.md).
 */
#ifndef GPUWIRE_SOFTNIC_H
#define GPUWIRE_SOFTNIC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * softnic_install - makes the software NIC this process's RDMA device.
 *
 * Makes libibverbs, libmlx5 and librdmacm call the software NIC, where they would call open, ioctl, mmap and
 * a few more. It leaves the calls of all other libraries alone, except those that set handlers of SIGSEGV and
 * SIGBUS. The NIC needs its own handlers in front (docs/softnic-verbs.md). From then on ibv_get_device_list()
 * answers with the software NIC alone. The NIC itself starts when a device is first opened. A second call
 * attaches libraries that the process loaded since. A preloaded library need not call it again.
 *
 * Call it before this process's first use of libibverbs: device paths that a program was handed earlier keep
 * naming the real /sys. It sets and restores SYSFS_PATH, so no other thread may use the environment during
 * the call. Host only.
 *
 * Returns 0. Returns -ENOENT when the process has no libibverbs.so.1, or one that cannot be patched.
 * Returns -EACCES when an import table or the folder for the device's files cannot be written. Failures
 * print one line on stderr.
 */
int softnic_install(void);

/*
 * softnic_uninstall - gives the libraries their own calls back and removes the device's files. Happens by
 * itself at exit. Host only; no other thread may be inside libibverbs.
 *
 * Returns 0, or -EBUSY while a device is still open.
 */
int softnic_uninstall(void);

/*
 * softnic_same_host - writes one line to text, at most size bytes. The line says how the NIC reaches peers on
 * the same host: by copies between processes, by shared memory, or over the wire. It also says why not in a
 * better way. Host only, any thread.
 *
 * Returns 0, or -ENODEV while no device is open.
 */
int softnic_same_host(char *text, size_t size);

/*
 * softnic_hostile - is the first NIC as unkind as a NIC may be (GPUWIRE_NIC says hostile=1)? Then data for a
 * GPU that promises no order comes later than its completion: when the NIC next reads from that GPU.
 *
 * Returns 1 or 0, or -ENODEV while no device is open. Host only, any thread.
 */
int softnic_hostile(void);

#ifdef __cplusplus
}
#endif

#endif
