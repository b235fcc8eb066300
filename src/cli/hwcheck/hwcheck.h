/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire hwcheck: what its files share. */
#ifndef GW_CLI_HWCHECK_H
#define GW_CLI_HWCHECK_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- child.c: programs that are run -------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int in;        /* its standard input, which ends when we do: what runs at a distance can tell by it */
    int fd[2];     /* its standard output and error; -1: at their end */
    char *said[2]; /* what came from them, ended by a zero; at most 256 KiB each */
    size_t len[2];
};

/* 0 or a negative errno. argv[0] is looked for in PATH. */
int child_start(struct child *c, const char *const *argv);
/* Until its standard error holds the text (1), it has ended (0), or the deadline has passed (0). */
bool child_says(struct child *c, const char *text, uint64_t deadline_ns);
/* Its exit code, 128 + a signal's number; ended by us at the deadline, by its input's end first: 124. Ctrl-C
 * is passed on. */
int child_finish(struct child *c, uint64_t deadline_ns);
void child_free(struct child *c);

/* ---- facts.c: what a machine is ------------------------------------------------------------------------ */

/* Kernel, processor, NICs, driver, firmware, GPU, rdma-core, gpuwire: no addresses, no names of hosts or
 * users. */
json_t *hwcheck_facts(void);

/* ---- check.c: one check -------------------------------------------------------------------------------- */

struct hwcheck {
    const char *host, *address, *ssh, *remote, *dev, *remote_dev, *out, *only;
    uint64_t port;
    uint32_t between; /* checks between the hosts so far … */
    /* … of which the first has not got through: each of the others would wait long, without success */
    bool no_way;
    bool quick, facts;
    bool placed;  /* the report has what the executor's requests take to the NIC, and where its buffers lie */
    bool foreign; /* one of the NICs is no ConnectX */
    bool by_device; /* the other NIC's address is what it says itself, and not `address` */
    unsigned gpu, gpu_there;
    char self[PATH_MAX];
    json_t *results;
};

/* Where a check runs: between both hosts, here alone, or as a test program beside this one. GPU_HERE: here
 * alone, and only on a GPU, because 32 CPU threads that go in step would measure the scheduler. */
enum { BETWEEN, HERE, GPU_HERE, PROGRAM };

struct item {
    const char *kind, *args;
    int where;
    bool quick; /* also with --quick */
};

/* `COMMAND HOST LINE`, COMMAND being ssh's. */
int hwcheck_start_there(const struct hwcheck *h, const char *line, struct child *c);
/* Runs it, prints a line and adds to h->results. Nothing of it when Ctrl-C came in between. */
void hwcheck_run(struct hwcheck *h, const struct item *it, const char *exec, uint64_t port);

/* ---- report.c ------------------------------------------------------------------------------------------ */

/* Blanks out addresses, and the words given (NULL ends them), in place. */
void hwcheck_scrub(char *text, const char *const *words);
/* The readable part: an array of lines. */
json_t *hwcheck_summary(const json_t *report);
int hwcheck_write(const char *path, json_t *report);

#endif
