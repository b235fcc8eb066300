/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handlers.h: the handler of SIGSEGV and SIGBUS that the NIC needs, in front of the program's own.
 *
 * The NIC's handler stays in place, and the program does not see it. The program's own sigaction() for these
 * two signals is remembered here. sigaction() reports the program's own handler. A fault that is not the
 * NIC's goes to the program's handler as the kernel would have called it: with its mask and stack, once only
 * with SA_RESETHAND. By default, a fault ends the process where it happened. If the program ignores the
 * signal, a sent one is ignored, and a fault ends the process, as the kernel has it.
 *
 * attach/signals.c leads the program's calls here. Some calls cannot be led: a program that makes the system
 * call itself (Go does), or is linked statically. Its handler replaces the NIC's, until the NIC makes its
 * next object: then the NIC's handler is in front again. Such a handler may pass faults on to the NIC's
 * (chaining) at any time.
 *
 * Two things differ from a process without a NIC. An ignored signal interrupts a system call that SA_RESTART
 * does not restart. And a program that is executed does not inherit that the signal was ignored.
 */
#ifndef SOFTNIC_MEM_HANDLERS_H
#define SOFTNIC_MEM_HANDLERS_H

#include <signal.h>
#include <ucontext.h>

/* Takes the fault of an access if it is the NIC's, and then does not return. Runs in the signal handler. */
typedef void sn_fault_taker(const ucontext_t *ctx);

/* Puts the NIC's handler in place, or in front of one that took its place. Cheap. 0 or a negative errno. */
int sn_handlers_install(sn_fault_taker *take);

/* As sigaction(), for any signal: what the program calls. 0, or -1 with errno. In signal handlers too. */
int sn_handlers_action(int sig, const struct sigaction *action, struct sigaction *old);

#endif
