/* SPDX-License-Identifier: Apache-2.0 */
/* Reads option values and addresses, catches signals, and chooses exit codes. */
#include "apps/faceverify/args.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void face_say(const char *command, const char *format, va_list args)
{
    fprintf(stderr, "gpuwire app faceverify%s%s: ", *command ? " " : "", command);
    vfprintf(stderr, format, args);
}

int face_usage_error(const char *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    face_say(command, format, args);
    va_end(args);
    fprintf(stderr, "; see `gpuwire app faceverify%s%s --help`\n", *command ? " " : "", command);
    return FACE_EXIT_USAGE;
}

int face_fail(const char *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    face_say(command, format, args);
    va_end(args);
    fputc('\n', stderr);
    return FACE_EXIT_FAILURE;
}

int face_option_wrong(const char *command, char **argv, int option)
{
    const char *said = argv[optind - 1];

    if (option == ':') return face_usage_error(command, "%s: a value must follow", said);
    if (optopt && strncmp(said, "--", 2)) return face_usage_error(command, "-%c: no such option", optopt);
    return face_usage_error(command, "%s: no such option, or no value belongs to it", said);
}

int face_option_number(const char *command, const char *option, const char *text, uint64_t min, uint64_t max,
                       uint64_t *out)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno || *end || value < min || value > max)
        return face_usage_error(command, "%s %s: must be a number from %llu to %llu", option, text,
                                (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return 0;
}

int face_option_real(const char *command, const char *option, const char *text, double min, double max,
                     double *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= min && value <= max))
        return face_usage_error(command, "%s %s: must be a number from %g to %g", option, text, min, max);
    *out = value;
    return 0;
}

/* ---- addresses ----------------------------------------------------------------------------------------- */

/* Takes "host:port" apart, in place: *port stays as it is where there is none. */
static bool address_split(char *text, char **host, char **port)
{
    char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');

    *host = text;
    if (*text == '[') {
        if (!bracket) return false;
        *host = text + 1;
        *bracket = 0;
        if (bracket[1] && bracket[1] != ':') return false;
        if (bracket[1]) *port = bracket + 2;
        return true;
    }
    if (!colon || strchr(text, ':') != colon) return true; /* no port; or an IPv6 address as it is */
    *colon = 0;
    *port = colon + 1;
    return true;
}

int face_address(const char *command, const char *text, uint16_t port, bool any, struct sockaddr_storage *out,
                 socklen_t *len)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = any ? AI_PASSIVE : 0}, *got;
    char copy[300], number[8], *host, *service = number;
    uint64_t value;
    int err;

    snprintf(number, sizeof(number), "%u", port);
    if (strlen(text) >= sizeof(copy)) return face_fail(command, "%.40s…: too long", text), -EINVAL;
    strcpy(copy, text);
    if (!address_split(copy, &host, &service)) return face_fail(command, "%s: no address", text), -EINVAL;
    if (any && service == number && *host && strspn(host, "0123456789") == strlen(host)) {
        service = host;
        host = copy + strlen(copy);
    }
    if (!*host && !any) return face_fail(command, "%s: the host is missing", text), -EINVAL;
    if (face_option_number(command, "port", service, any ? 0 : 1, 65535, &value)) return -EINVAL;
    if (any && !*host) hints.ai_family = AF_INET;
    err = getaddrinfo(*host ? host : NULL, service, &hints, &got);
    if (err) return face_fail(command, "%s: %s", text, gai_strerror(err)), -EADDRNOTAVAIL;
    memcpy(out, got->ai_addr, got->ai_addrlen);
    *len = got->ai_addrlen;
    freeaddrinfo(got);
    return 0;
}

/* ---- signals ------------------------------------------------------------------------------------------- */

static unsigned face_signals; /* two may come at once, each to another thread */
static int face_signal_fd = -1;

static void on_face_signal(int number)
{
    uint64_t one = 1;
    int saved = errno;

    if (__atomic_fetch_add(&face_signals, 1, __ATOMIC_RELAXED)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (write(face_signal_fd, &one, sizeof(one)) < 0) { /* it is full of earlier ones: readable anyway */
    }
    errno = saved;
}

void face_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_face_signal};

    face_signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool face_interrupted(void)
{
    return __atomic_load_n(&face_signals, __ATOMIC_RELAXED) != 0;
}

int face_interrupt_fd(void)
{
    return face_signal_fd;
}

int face_exit_code(bool failed)
{
    return face_interrupted() ? FACE_EXIT_INTERRUPTED : failed ? FACE_EXIT_FAILURE : FACE_EXIT_OK;
}
