/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h: touching memory that may be gone.
 *
 * A NIC reads and writes memory that a program registered and may have unmapped since, or never owned: queue
 * addresses come from a command, too. A real NIC answers with an error, so a fault must not end the process.
 * Asking the kernel before (mincore) races with unmapping and does not see protections. Letting it copy
 * (process_vm_writev) costs a system call per packet and is forbidden in some containers. So accesses are
 * made under a guard: a handler for SIGSEGV and SIGBUS that, if the faulting thread is inside a guarded
 * access, makes that access return -EFAULT. Every other fault goes to the program's own handler (handlers.h).
 * A thread's first access unblocks the two signals in that thread: the kernel ends a process whose thread has
 * blocked them at a fault. A thread that blocks them later loses its guard.
 *
 * The guard belongs to the thread that makes the access, so any number of threads may be inside guards. It
 * cannot see that memory was unmapped and mapped again for something else: that needs an MR to be destroyed
 * first, as with a real NIC.
 */
#ifndef SOFTNIC_MEM_GUARD_H
#define SOFTNIC_MEM_GUARD_H

#include <stddef.h>
#include <stdint.h>

/*
 * Puts the handler in place, or in front again if the program put its own there without our knowledge. Cheap;
 * called when objects are made. 0 or a negative errno.
 */
int sn_guard_install(void);

/* Copies n bytes. 0, or -EFAULT: some of them are not mapped or not writable, and some may have been copied.
 */
int sn_guard_copy(void *dst, const void *src, size_t n);

/* Single words, each with one load (acquire) or store (release). 0 or -EFAULT. */
int sn_guard_load32(const uint32_t *from, uint32_t *value);
int sn_guard_store32(uint32_t *to, uint32_t value);
int sn_guard_store8(uint8_t *to, uint8_t value);

/* Runs fn(arg) under the guard. fn must hold nothing: it may be left in the middle of any load or store. 0 or
 * -EFAULT. */
int sn_guard_call(void (*fn)(void *arg), void *arg);

#endif
