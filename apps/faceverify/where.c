/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify where: which memcached has a person, and by which key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/face.h"
#include "apps/faceverify/memcache_ring.h"

static const char where_call[] = "app faceverify where";

static const char where_usage[] =
    "usage: gpuwire app faceverify where [OPTION...] [NAME...]\n\n"
    "Prints a line for each name: its key, and the server that libmemcached's clients expect it on. Without\n"
    "names they come from standard input, one in a line.\n\n"
    "  -m, --memcached HOST[:PORT][/WEIGHT],...  the servers (default: 127.0.0.1)\n"
    "  -s, --spread modula|ketama|ketama-weighted  how keys are spread over them (default: modula)\n"
    "  -h, --help      this text\n";

static const struct option where_options[] = {
    {"memcached", 1, NULL, 'm'}, {"spread", 1, NULL, 's'}, {"help", 0, NULL, 'h'}, {0}};

static int where_print(const struct mc_servers *s, const struct mc_ring *ring, const char *name)
{
    char key[FACE_KEY_MAX];
    size_t len = strlen(name);
    uint32_t i;

    if (!face_name_valid(name, len))
        return gw_fail(where_call, "%s: a name has 1 to %d bytes, and no blanks", name, FACE_NAME_MAX);
    len = face_key(key, name, len);
    i = mc_server_of(ring, key, (uint32_t)len);
    printf("%.*s %s:%u\n", (int)len, key, s->server[i].host, s->server[i].port);
    return 0;
}

static int where_read(const struct mc_servers *s, const struct mc_ring *ring)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int err = 0;

    while (!err && (n = getline(&line, &room, stdin)) > 0) {
        line[strcspn(line, "\n")] = 0;
        err = where_print(s, ring, line);
    }
    free(line);
    return err;
}

int face_cmd_where(int argc, char **argv)
{
    static struct mc_point point[MC_POINTS_MAX];
    struct mc_servers servers;
    struct mc_ring ring;
    const char *list = "127.0.0.1";
    uint32_t spread = MC_MODULA;
    int c, err = 0;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:s:h", where_options, NULL)) >= 0) {
        switch (c) {
        case 'm': list = optarg; break;
        case 's':
            err = mc_spread_parse(where_call, optarg, &spread);
            if (err) return err;
            break;
        case 'h': return fputs(where_usage, stdout), GW_EXIT_OK;
        default: return gw_option_wrong(where_call, argv, c);
        }
    }
    err = mc_servers_parse(where_call, list, &servers);
    if (err) return err;
    mc_ring_make(&servers, spread, point, &ring);
    if (optind == argc) err = where_read(&servers, &ring);
    for (; optind < argc && !err; optind++) err = where_print(&servers, &ring, argv[optind]);
    return gw_exit_code(err);
}
