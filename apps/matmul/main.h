/* SPDX-License-Identifier: Apache-2.0 */
/* main.h: what the files of the program share. */
#ifndef MATMUL_MAIN_H
#define MATMUL_MAIN_H

#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "serve.h"

/* Reads the options of a server; -1: go on, else an exit code. `demo`: those of the demonstration. */
int mm_serve_parse(int argc, char **argv, bool demo, struct mm_server_opts *o);

/* Starts a server with the given options, clients of several kinds, and prints a table. An exit code. */
int mm_demo(const struct mm_server_opts *o);

/* The command `ask`: kernels as clients. */
int mm_ask_main(int argc, char **argv);

#endif
