/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h: tracepoints for developers (USDT). Each is one nop, and a note in the binary that says where it is
 * and where its arguments lie. Tools such as bpftrace, perf and gdb put a breakpoint there: docs/debugging.md
 * has them all.
 *
 * An argument is a number or a pointer that the code has at hand, in a register or in memory. Compute
 * nothing for a tracepoint: it would cost time without a tracer, too. gcc takes a tracepoint for long code.
 * So put none into a function that must be inlined. Without <sys/sdt.h>, and in code for GPUs, nothing is
 * left of them.
 */
#ifndef GPUWIRE_TRACE_TRACE_H
#define GPUWIRE_TRACE_TRACE_H

#if defined(GW_HAVE_SDT) && !defined(__CUDACC__)

#define SDT_USE_VARIADIC
#include <sys/sdt.h>

#define GW_TRACE(provider, name, ...) STAP_PROBEV(provider, name, __VA_ARGS__)

#else

#define GW_TRACE(provider, name, ...) ((void)0)

#endif

#endif
