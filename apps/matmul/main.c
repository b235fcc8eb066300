/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app matmul: its commands, and the one that serves. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "load.h"
#include "main.h"

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

static void main_print_where(const struct mm_server_opts *o, const struct mm_server *s)
{
    char host[64] = "?";

    getnameinfo((const struct sockaddr *)&o->addr, o->addr_len, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
    printf("gpuwire app matmul: listening at %s port %u: %s; Ctrl-C ends it\n", host, mm_server_port(s),
           mm_server_name(s));
    fflush(stdout);
}

static int main_failed(void)
{
    return gw_fail("app matmul serve", "%s", gw_last_error());
}

static int main_serve(int argc, char **argv)
{
    struct mm_server_opts o;
    struct mm_counts counts = {0};
    struct mm_server *s;
    int done = mm_serve_parse(argc, argv, false, &o), err;

    if (done >= 0) return done;
    if (mm_server_open(&o, &s)) return main_failed();
    main_print_where(&o, s);
    while (!gw_interrupted() && !(err = mm_server_check(s))) usleep(100000);
    if (!gw_interrupted()) main_failed();
    err = mm_server_stop(s);
    mm_server_query(s, &counts);
    mm_server_close(s);
    printf("%llu products; %llu connections, %llu dropped; %llu requests refused, %llu found no room\n",
           (unsigned long long)counts.answered, (unsigned long long)counts.accepted,
           (unsigned long long)counts.dropped, (unsigned long long)counts.refused,
           (unsigned long long)counts.busy);
    main_print_times(&counts);
    if (err) return main_failed();
    return gw_exit_code(true);
}

int main(int argc, char **argv)
{
    struct mm_server_opts o;
    int done;

    gw_catch_signals();
    if (argc > 1 && !strcmp(argv[1], "serve")) return main_serve(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "ask")) return mm_ask_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "load"))
        return mm_load_main("app matmul load", argc - 1, argv + 1, gw_interrupted);
    done = mm_serve_parse(argc, argv, true, &o);
    return done >= 0 ? done : mm_demo(&o);
}
