/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h: reading the values of options, with one clear line for each mistake.
 *
 * For commands of the tool and for applications, which `gpuwire app NAME` starts. `command` is what a user
 * types after gpuwire: "serve", "app matmul load". Messages go to standard error and name it:
 *
 *     gpuwire app matmul serve: --blocks 0: must be a number from 1 to 4096; see `gpuwire app matmul serve
 *     --help`
 *
 * A loop of getopt_long, with opterr = 0 and an optstring that starts with ':', reads
 *
 *     case 'b': err = gw_option_number("app matmul serve", "--blocks", optarg, 1, 4096, &blocks); break;
 *     case '?':
 *     case ':': err = gw_option_wrong("app matmul serve", argv, c); break;
 *
 * Functions return 0 or an exit code, which is positive; what they were to fill in is then unchanged. All are
 * inline: a program that uses these alone needs no library. Host only; any thread, but getopt has one state
 * for all.
 */
#ifndef GPUWIRE_OPTIONS_H
#define GPUWIRE_OPTIONS_H

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* How a command ends: done; failed; it was called the wrong way; a signal ended it. */
enum { GW_EXIT_OK = 0, GW_EXIT_FAILURE = 1, GW_EXIT_USAGE = 2, GW_EXIT_INTERRUPTED = 130 };

#define GW_OPTIONS_FN static inline

/* Says what is wrong with the call and how to learn more. Returns GW_EXIT_USAGE. */
GW_OPTIONS_FN __attribute__((format(printf, 2, 3))) int gw_usage_error(const char *command,
                                                                       const char *format, ...)
{
    va_list args;

    fprintf(stderr, "gpuwire %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    /* Some end with a question. */
    fprintf(stderr, "%s `gpuwire %s --help`\n", format[strlen(format) - 1] == '?' ? " See" : "; see",
            command);
    return GW_EXIT_USAGE;
}

/* Says what failed, in a line. Returns GW_EXIT_FAILURE. */
GW_OPTIONS_FN __attribute__((format(printf, 2, 3))) int gw_fail(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "gpuwire %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return GW_EXIT_FAILURE;
}

/* Says what getopt's '?' or ':' means. Returns GW_EXIT_USAGE. */
GW_OPTIONS_FN int gw_option_wrong(const char *command, char *const *argv, int option)
{
    const char *said = argv[optind - 1];

    if (option == ':') return gw_usage_error(command, "%s: it wants a value", said);
    if (!optopt) return gw_usage_error(command, "%s: no such option", said);
    if (!strncmp(said, "--", 2) && strchr(said, '='))
        return gw_usage_error(command, "%.*s: it takes no value", (int)strcspn(said, "="), said);
    return gw_usage_error(command, "-%c: no such option", optopt); /* perhaps one of several in a word */
}

/* A whole number from min to max: 0, or GW_EXIT_USAGE after a line that says what was expected. */
GW_OPTIONS_FN int gw_option_number(const char *command, const char *option, const char *text, uint64_t min,
                                   uint64_t max, uint64_t *out)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno || *end || value < min || value > max)
        return gw_usage_error(command, "%s %s: must be a number from %llu to %llu", option, text,
                              (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return 0;
}

/* As gw_option_number, for a uint32_t: max is 0xffffffff at most. */
GW_OPTIONS_FN int gw_option_u32(const char *command, const char *option, const char *text, uint32_t min,
                                uint32_t max, uint32_t *out)
{
    uint64_t value = 0;
    int err = gw_option_number(command, option, text, min, max, &value);

    if (!err) *out = (uint32_t)value;
    return err;
}

/* As gw_option_number, for bytes (min, max, *out), in which k, M or G may stand after the number: 1024 of
 * these make the next. */
GW_OPTIONS_FN int gw_option_bytes(const char *command, const char *option, const char *text, uint64_t min,
                                  uint64_t max, uint64_t *out)
{
    static const char units[] = "kMGKmg";
    const char *unit;
    char *end;
    unsigned long long value;
    int shift = 0;

    errno = 0;
    value = strtoull(text, &end, 10);
    unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        shift = (int)(10 * ((unit - units) % 3 + 1));
        end++;
    }
    if (text[0] < '0' || text[0] > '9' || errno || *end || value > UINT64_MAX >> shift ||
        value << shift < min || value << shift > max)
        return gw_usage_error(command, "%s %s: must be a number from %llu to %llu, perhaps with k, M or G",
                              option, text, (unsigned long long)min, (unsigned long long)max);
    *out = value << shift;
    return 0;
}

/* As gw_option_number, for a number that may have a fraction. */
GW_OPTIONS_FN int gw_option_real(const char *command, const char *option, const char *text, double min,
                                 double max, double *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= min && value <= max))
        return gw_usage_error(command, "%s %s: must be a number from %g to %g", option, text, min, max);
    *out = value;
    return 0;
}

/* One of `words`, which have a blank between them ("auto cpu gpu"): 0, and its place among them goes to *out,
 * which may be NULL; or GW_EXIT_USAGE after a line that names them. */
GW_OPTIONS_FN int gw_option_word(const char *command, const char *option, const char *text, const char *words,
                                 uint32_t *out)
{
    const char *word = words;
    uint32_t i = 0;

    for (;; i++) {
        size_t len = strcspn(word, " ");

        if (strlen(text) == len && !strncmp(text, word, len)) break;
        if (!word[len])
            return gw_usage_error(command, "%s %s: must be one of these: %s", option, text, words);
        word += len + 1;
    }
    if (out) *out = i;
    return 0;
}

/* Splits "HOST:PORT", "[HOST]:PORT" or HOST in place; *port stays as it is where there is none. False: the
 * brackets are wrong. */
static inline bool gw_address_split_(char *text, char **host, char **port)
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

/* Splits, reads the port, and looks the host up. `any`: without a host all IPv4 addresses are meant. */
static inline int gw_address_(const char *command, char *text, uint16_t port, bool any,
                              struct sockaddr_storage *out, socklen_t *len)
{
    char number[8], *host, *service = number;
    struct addrinfo hints, *got;
    uint64_t value;
    int err;

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    snprintf(number, sizeof(number), "%u", port);
    if (!gw_address_split_(text, &host, &service)) return gw_usage_error(command, "%s: no address", text);
    if (!*host && !any) return gw_usage_error(command, ":%s: the host is missing", service);
    err = gw_option_number(command, "port", service, any ? 0 : 1, 65535, &value);
    if (err) return err;
    if (!*host) hints.ai_family = AF_INET;
    if (any) hints.ai_flags = AI_PASSIVE;
    err = getaddrinfo(*host ? host : NULL, service, &hints, &got);
    if (err) return gw_fail(command, "%s: %s", host, gai_strerror(err));
    memcpy(out, got->ai_addr, got->ai_addrlen);
    *len = got->ai_addrlen;
    freeaddrinfo(got);
    return 0;
}

enum { GW_ADDRESS_TEXT_ = 300 };

/* Where a server is: HOST:PORT, [HOST]:PORT, or HOST, whose port then is `port`. 0; GW_EXIT_USAGE or
 * GW_EXIT_FAILURE after a line that says what is wrong. It may wait for the name service. *len: bytes of
 * *out. */
GW_OPTIONS_FN int gw_option_address(const char *command, const char *text, uint16_t port,
                                    struct sockaddr_storage *out, socklen_t *len)
{
    char copy[GW_ADDRESS_TEXT_];

    if (strlen(text) >= sizeof(copy)) return gw_usage_error(command, "%.40s...: too long", text);
    return gw_address_(command, strcpy(copy, text), port, false, out, len);
}

/* Where to listen: as gw_option_address; but also PORT, at 127.0.0.1; and :PORT, at all IPv4 addresses. Port
 * 0 is any. *len: bytes of *out. */
GW_OPTIONS_FN int gw_option_listen(const char *command, const char *text, uint16_t port,
                                   struct sockaddr_storage *out, socklen_t *len)
{
    bool bare = *text && strspn(text, "0123456789") == strlen(text);
    char copy[GW_ADDRESS_TEXT_];

    if (snprintf(copy, sizeof(copy), "%s%s", bare ? "127.0.0.1:" : "", text) >= (int)sizeof(copy))
        return gw_usage_error(command, "%.40s...: too long", text);
    return gw_address_(command, copy, port, true, out, len);
}

#endif
