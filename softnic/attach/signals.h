/* SPDX-License-Identifier: Apache-2.0 */
/* The program's calls that set handlers of SIGSEGV and SIGBUS, led to mem/handlers.h. */
#ifndef SOFTNIC_ATTACH_SIGNALS_H
#define SOFTNIC_ATTACH_SIGNALS_H

/*
 * sn_signals_apply - patches the import tables of all libraries that are loaded now, and of the program. It
 * does nothing where this library's functions are found first anyhow: where it is preloaded, or the program
 * is linked to it.
 */
void sn_signals_apply(void);

#endif
