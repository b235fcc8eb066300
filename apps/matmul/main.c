/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app matmul: its commands, and the one that serves. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "load.h"
#include "main.h"

volatile int mm_interrupted;

static void main_signal(int signal)
{
    (void)signal;
    if (mm_interrupted) _exit(MM_EXIT_INTERRUPTED); /* the second one */
    mm_interrupted = 1;
}

static int main_failed(void)
{
    fprintf(stderr, "gpuwire app matmul: %s\n", gw_last_error());
    return MM_EXIT_FAILURE;
}

/* A request's way: how long its steps took on average. */
static void main_print_times(const struct mm_counts *c)
{
    double n = (double)c->answered * 1e3;

    if (!c->answered) return;
    printf(
        "on average a request took: %.1f us to wait for a buffer, %.1f to receive the matrices, %.1f for the "
        "product, %.1f to send the answer\n",
        (double)c->ns[MM_ROOM] / n, (double)c->ns[MM_BODY] / n, (double)c->ns[MM_COMPUTE] / n,
        (double)c->ns[MM_ANSWER] / n);
}

static int main_serve(int argc, char **argv)
{
    struct mm_server_opts o;
    struct mm_counts counts = {0};
    struct mm_server *s;
    int done = mm_serve_parse(argc, argv, false, &o), err;

    if (done >= 0) return done;
    if (mm_server_open(&o, &s)) return main_failed();
    printf("gpuwire app matmul: listening at %s port %u: %s; Ctrl-C ends it\n", o.host ? o.host : "127.0.0.1",
           mm_server_port(s), mm_server_name(s));
    fflush(stdout);
    while (!mm_interrupted && !(err = mm_server_check(s))) usleep(100000);
    if (!mm_interrupted) main_failed();
    err = mm_server_stop(s);
    mm_server_query(s, &counts);
    mm_server_close(s);
    printf("%llu products; %llu connections, %llu dropped; %llu requests refused, %llu found no room\n",
           (unsigned long long)counts.answered, (unsigned long long)counts.accepted,
           (unsigned long long)counts.dropped, (unsigned long long)counts.refused,
           (unsigned long long)counts.busy);
    main_print_times(&counts);
    if (err) return main_failed();
    return mm_interrupted ? MM_EXIT_INTERRUPTED : MM_EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = main_signal};
    struct mm_server_opts o;
    int done;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (argc > 1 && !strcmp(argv[1], "serve")) return main_serve(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "ask")) return mm_ask_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "load"))
        return mm_load_main("gpuwire app matmul load", argc - 1, argv + 1, &mm_interrupted);
    done = mm_serve_parse(argc, argv, true, &o);
    return done >= 0 ? done : mm_demo(&o);
}
