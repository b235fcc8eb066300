/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify verify: asks a server whether a picture shows a person. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/enrol/read.h"
#include "apps/faceverify/now.h"
#include "apps/faceverify/picture/align.h"

static const char verify_call[] = "app faceverify verify";

enum { VERIFY_PATIENCE_S = 10, VERIFY_NO = 3 /* the exit code of a clear no */ };

struct verify_options {
    const char *name, *picture, *server;
    struct face_eyes eyes;
    bool have_eyes, aligned;
    struct sockaddr_storage address;
    socklen_t address_len;
};

static void verify_print_usage(FILE *f)
{
    fprintf(f,
            "usage: gpuwire app faceverify verify NAME PICTURE [OPTION...]\n\n"
            "Asks a server whether the picture, a PNG or JPEG file, shows that person.\n\n"
            "  --server HOST[:PORT]  the server (127.0.0.1:%d)\n"
            "  --eyes X1,Y1,X2,Y2    the eyes' places in the picture; otherwise as `enrol` finds them\n"
            "  --aligned             the picture is aligned already\n"
            "  -h, --help            this text\n\n"
            "Exit code 0: yes; %d: no, or the server does not know the name; 1: there is no answer.\n",
            FACE_PORT, VERIFY_NO);
}

static int verify_option(int option, char **argv, struct verify_options *o)
{
    switch (option) {
    case 's': o->server = optarg; return 0;
    case 'a': o->aligned = true; return 0;
    case 'e':
        o->have_eyes = true;
        return face_eyes_parse(optarg, &o->eyes) ? gw_usage_error(verify_call, "--eyes %s", gw_last_error())
                                                 : 0;
    default: return gw_option_wrong(verify_call, argv, option);
    }
}

/* -1: go on; else the exit code. */
static int verify_arguments(int argc, char **argv, struct verify_options *o)
{
    static const struct option options[] = {{"server", 1, NULL, 's'},
                                            {"eyes", 1, NULL, 'e'},
                                            {"aligned", 0, NULL, 'a'},
                                            {"help", 0, NULL, 'h'},
                                            {0}};
    int option, err;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            verify_print_usage(stdout);
            return GW_EXIT_OK;
        }
        err = verify_option(option, argv, o);
        if (err) return err;
    }
    if (argc - optind != 2) return gw_usage_error(verify_call, "NAME and PICTURE are needed");
    o->name = argv[optind];
    o->picture = argv[optind + 1];
    if (!face_name_valid(o->name, strlen(o->name)))
        return gw_usage_error(verify_call, "%.40s: a name has 1 to %d bytes, and no blanks", o->name,
                              FACE_NAME_MAX);
    err = gw_option_address(verify_call, o->server, FACE_PORT, &o->address, &o->address_len);
    return err ? err : -1;
}

static int verify_failed(int fd, const char *what)
{
    int err = errno == EAGAIN || errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    if (fd >= 0) close(fd);
    return gw_error_errno(err, "%s", what);
}

/* One request on a connection of its own, and its reply. */
static int verify_ask(const struct verify_options *o, const uint8_t *pixels, struct face_reply *reply)
{
    const struct timeval patience = {VERIFY_PATIENCE_S, 0};
    struct face_request head = {FACE_REQUEST_MAGIC, FACE_WIRE_VERSION, (uint8_t)strlen(o->name), 0, 1};
    uint8_t request[FACE_REQUEST_MAX] = {0};
    uint32_t size = face_request_bytes(head.name_len), got = 0;
    memcpy(request, &head, sizeof(head));
    memcpy(request + sizeof(head), o->name, head.name_len);
    memcpy(request + size - FACE_PIXELS, pixels, FACE_PIXELS);
    int fd = socket(o->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return verify_failed(fd, "no socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&o->address, o->address_len))
        return verify_failed(fd, "cannot connect to the server");
    for (uint32_t sent = 0; sent < size;) {
        ssize_t n = send(fd, request + sent, size - sent, MSG_NOSIGNAL);
        if (n < 0) return verify_failed(fd, "the server does not take the request");
        sent += (uint32_t)n;
    }
    while (got < sizeof(*reply)) {
        ssize_t n = recv(fd, (char *)reply + got, sizeof(*reply) - got, 0);
        if (n <= 0) errno = n ? errno : ECONNRESET;
        if (n <= 0) return verify_failed(fd, "no reply from the server");
        got += (uint32_t)n;
    }
    close(fd);
    if (reply->magic != FACE_REPLY_MAGIC || reply->id != head.id || reply->verdict >= FACE_VERDICTS)
        return gw_error(-EPROTO, "what the server says is no reply");
    return 0;
}

static int verify_tell(const struct verify_options *o, const struct face_reply *r, uint64_t took)
{
    switch (r->verdict) {
    case FACE_MATCH: printf("yes, this is %s", o->name); break;
    case FACE_NO_MATCH: printf("no, this is not %s", o->name); break;
    case FACE_UNKNOWN: printf("no one is enrolled as %s\n", o->name); return VERIFY_NO;
    case FACE_UNAVAILABLE: return gw_fail(verify_call, "the server has no answer from memcached; try again");
    case FACE_BUSY: return gw_fail(verify_call, "the server has no room; try again");
    default: return gw_fail(verify_call, "the server does not understand the request");
    }
    printf(": distance %.4f, threshold %.4f (%.2f ms)\n", (double)r->distance, (double)r->threshold,
           (double)took / 1e6);
    return r->verdict == FACE_MATCH ? GW_EXIT_OK : VERIFY_NO;
}

int face_cmd_verify(int argc, char **argv)
{
    struct verify_options o = {.server = "127.0.0.1"};
    uint8_t pixels[FACE_PIXELS];
    struct face_reply reply;
    int err = verify_arguments(argc, argv, &o);
    if (err >= 0) return err;
    struct face_read_opts opts = {o.have_eyes ? &o.eyes : NULL, o.aligned};
    err = face_view_read(o.picture, &opts, pixels, NULL);
    uint64_t begun = face_now();
    if (!err) err = verify_ask(&o, pixels, &reply);
    return err ? gw_fail(verify_call, "%s", gw_last_error()) : verify_tell(&o, &reply, face_now() - begun);
}
