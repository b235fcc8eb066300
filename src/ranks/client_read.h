/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that reads a rank's connection. */
#ifndef SRC_RANKS_CLIENT_READ_H
#define SRC_RANKS_CLIENT_READ_H

struct gw_ranks;

/* The thread: arg is the struct gw_ranks. It ends with the connection. */
void *gw_ranks_read_run(void *arg);

/* A text from the other side becomes one printable line. */
void gw_ranks_text_clean(char *text);

#endif
