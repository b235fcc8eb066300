/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h: numbers that no stranger can guess: of queue pairs, keys, PSNs, communication IDs. They come from
 * the kernel (getrandom), many with one system call. A forked child never gets what its parent has fetched.
 *
 * Any thread; no thread waits for another. Not for the data path.
 */
#ifndef SOFTNIC_BASE_SECRET_H
#define SOFTNIC_BASE_SECRET_H

#include <stddef.h>

/* Fills len bytes. 0; or a negative errno after one line on stderr, and then there is nothing to use
 * instead. */
int sn_secret(void *to, size_t len);

#endif
