/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify serve: the server, until Ctrl-C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/page/page.h"
#include "apps/faceverify/server.h"

static const char serve_call[] = "app faceverify serve";

static const char serve_usage[] =
    "usage: gpuwire app faceverify serve [OPTION...]\n\n"
    "A server in a kernel: each block receives requests, asks memcached, and compares.\n\n"
    "  -m, --memcached HOST[:PORT][/WEIGHT],...  the servers (default: 127.0.0.1)\n"
    "  -s, --spread modula|ketama|ketama-weighted  how keys are spread over them (default: modula)\n"
    "      --protocol binary|text   of memcached (default: binary)\n"
    "  -l, --listen [HOST:]PORT     where to listen (default: 127.0.0.1:7150; port 0: any)\n"
    "      --rdma                   over RDMA, too, at the same port: for programs that use rsockets\n"
    "  -t, --threshold X        the largest distance of a match, from 0 to 1 (default: 0.134)\n"
    "      --limit MS           how long a request waits for memcached (default: 200)\n"
    "      --stall S            how long a client may stop within a request (default: 5)\n"
    "      --idle S             how long a client may be silent between requests (default: 300)\n"
    "  -c, --clients N          connections at a time (default: 1024)\n"
    "      --exec auto|cpu|gpu  where the kernel runs (default: auto); --gpu N: which\n"
    "      --page [HOST:]PORT   a web page that shows what it does, without a password (HOST: 127.0.0.1)\n"
    "      --blocks N           of the kernel (default: as many as run at once)\n"
    "      --proxies N          threads that move bytes between the host's sockets and the kernel, each "
    "with\n"
    "                           its own listener at the port (default: 1; on a GPU a quarter of the\n"
    "                           processors). With several, up to twice as many clients may connect\n"
    "      --lanes N            threads of a block, on CPU threads (default: 1)\n"
    "  -h, --help               this text\n";

enum { RDMA = 256, PROTOCOL, LIMIT, STALL, IDLE, EXEC, GPU, BLOCKS, LANES, PROXIES, PAGE };

static const struct option serve_options[] = {
    {"memcached", 1, NULL, 'm'}, {"spread", 1, NULL, 's'},  {"protocol", 1, NULL, PROTOCOL},
    {"listen", 1, NULL, 'l'},    {"rdma", 0, NULL, RDMA},   {"threshold", 1, NULL, 't'},
    {"limit", 1, NULL, LIMIT},   {"stall", 1, NULL, STALL}, {"idle", 1, NULL, IDLE},
    {"clients", 1, NULL, 'c'},   {"exec", 1, NULL, EXEC},   {"gpu", 1, NULL, GPU},
    {"blocks", 1, NULL, BLOCKS}, {"lanes", 1, NULL, LANES}, {"proxies", 1, NULL, PROXIES},
    {"page", 1, NULL, PAGE},     {"help", 0, NULL, 'h'},    {0},
};

struct serve_args {
    struct face_server_opts o;
    const char *listen, *memcached;
    bool page;
    struct sockaddr_storage page_addr;
};

static int serve_number(struct serve_args *s, int c)
{
    static const struct {
        int c;
        const char *name;
        uint64_t min, max;
        size_t at;
    } numbers[] = {
        {LIMIT, "--limit", 1, 60000, offsetof(struct face_server_opts, limit_ms)},
        {STALL, "--stall", 1, 86400, offsetof(struct face_server_opts, stall_s)},
        {IDLE, "--idle", 1, 86400, offsetof(struct face_server_opts, idle_s)},
        {'c', "--clients", 1, 16384, offsetof(struct face_server_opts, conns)},
        {GPU, "--gpu", 0, 1023, offsetof(struct face_server_opts, gpu)},
        {BLOCKS, "--blocks", 1, 1024, offsetof(struct face_server_opts, blocks)},
        {PROXIES, "--proxies", 1, FACE_NETS_MAX, offsetof(struct face_server_opts, proxies)},
        {LANES, "--lanes", 1, 1024, offsetof(struct face_server_opts, lanes)},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i].c == c)
            return gw_option_number(serve_call, numbers[i].name, optarg, numbers[i].min, numbers[i].max,
                                    (uint64_t *)((char *)&s->o + numbers[i].at));
    return -1;
}

static int serve_take(struct serve_args *s, int c, char **argv)
{
    socklen_t len;

    switch (c) {
    case 'm': s->memcached = optarg; return 0;
    case 'l': s->listen = optarg; return 0;
    case 't': return gw_option_real(serve_call, "--threshold", optarg, 0, 1, &s->o.threshold);
    case 's': return mc_spread_parse(serve_call, optarg, &s->o.spread);
    case PROTOCOL: return gw_option_word(serve_call, "--protocol", optarg, "binary text", &s->o.protocol);
    case RDMA: s->o.rdma = true; return 0;
    case PAGE:
        s->page = s->o.recent = true;
        return gw_option_listen(serve_call, optarg, 0, &s->page_addr, &len);
    case EXEC: s->o.exec = optarg; return gw_option_word(serve_call, "--exec", optarg, "auto cpu gpu", NULL);
    case '?':
    case ':': return gw_option_wrong(serve_call, argv, c);
    default: return serve_number(s, c);
    }
}

static int serve_parse(int argc, char **argv, struct serve_args *s)
{
    int c, err = 0;

    *s = (struct serve_args){.listen = "127.0.0.1:7150", .memcached = "127.0.0.1"};
    face_server_defaults(&s->o);
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":m:s:l:t:c:h", serve_options, NULL)) >= 0) {
        if (c == 'h') return fputs(serve_usage, stdout), GW_EXIT_OK;
        err = serve_take(s, c, argv);
    }
    if (err) return err;
    if (optind < argc) return gw_usage_error(serve_call, "%s: not understood", argv[optind]);
    err = mc_servers_parse(serve_call, s->memcached, &s->o.memcached);
    if (err) return err;
    err = gw_option_listen(serve_call, s->listen, FACE_PORT, &s->o.addr, &s->o.addr_len);
    return err ? err : -1;
}

static void serve_print(const struct face_counts *c)
{
    static const char *const names[FACE_VERDICTS] = {"match",       "no match",  "unknown person",
                                                     "unavailable", "malformed", "refused"};

    printf("%llu requests of %llu clients:", (unsigned long long)c->requests, (unsigned long long)c->clients);
    for (int i = 0; i < FACE_VERDICTS; i++)
        if (c->verdicts[i]) printf(" %llu %s,", (unsigned long long)c->verdicts[i], names[i]);
    printf(" %llu connections to memcached lost\n", (unsigned long long)c->links_failed);
}

static void serve_page_counts(void *server, struct face_counts *sum)
{
    face_server_counts(server, sum);
}

static int serve_page(const struct serve_args *s, struct face_server *server, struct face_page **page)
{
    struct face_page_source source = {
        .ctx = server,
        .counts = serve_page_counts,
        .recent = face_server_recent(server),
        .blocks = face_server_blocks(server),
        .threshold = (float)s->o.threshold,
        .listens = face_server_name(server),
        .exec = face_server_exec(server),
        .memcached = &s->o.memcached,
    };
    int err = face_page_start(&s->page_addr, &source, page);

    if (!err) printf("page: http://%s/\n", face_page_name(*page));
    return err;
}

int face_cmd_serve(int argc, char **argv)
{
    struct face_server *server = NULL;
    struct face_page *page = NULL;
    struct face_counts counts;
    struct serve_args s;
    int done = serve_parse(argc, argv, &s), fd, err;

    if (done >= 0) return done;
    gw_catch_signals();
    fd = gw_interrupt_fd();
    err = face_server_start(&s.o, &server);
    if (!err) {
        printf("listening on %s, with %u blocks on %s\n", face_server_name(server),
               face_server_blocks(server), face_server_exec(server));
        if (s.page) err = serve_page(&s, server, &page);
        fflush(stdout);
    }
    while (!err && !gw_interrupted()) {
        gw_wait_fds(&fd, 1, gw_deadline(500000000));
        err = face_server_check(server);
    }
    face_page_stop(page);
    if (!err) err = face_server_halt(server);
    if (err) {
        gw_fail(serve_call, "%s", gw_last_error());
    } else {
        face_server_counts(server, &counts);
        serve_print(&counts);
    }
    face_server_stop(server);
    return gw_exit_code(err);
}
