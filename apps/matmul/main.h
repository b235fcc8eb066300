/* SPDX-License-Identifier: Apache-2.0 */
/* main.h: what the files of the program share. */
#ifndef MATMUL_MAIN_H
#define MATMUL_MAIN_H

#include "serve.h"

enum { MM_EXIT_OK = 0, MM_EXIT_FAILURE = 1, MM_EXIT_USAGE = 2, MM_EXIT_INTERRUPTED = 130 };

/* Not 0: SIGINT, SIGTERM or SIGHUP has come. */
extern volatile int mm_interrupted;

/* Reads the options of a server; -1: go on, else an exit code. `demo`: those of the demonstration. */
int mm_serve_parse(int argc, char **argv, bool demo, struct mm_server_opts *o);

/* Starts a server with the given options, clients of several kinds, and prints a table. An exit code. */
int mm_demo(const struct mm_server_opts *o);

/* The command `ask`: kernels as clients. */
int mm_ask_main(int argc, char **argv);

#endif
