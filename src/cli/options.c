/* SPDX-License-Identifier: Apache-2.0 */
/* Reads option values, catches signals, and chooses exit codes. */
#include "src/cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/beside.h"

int gw_usage_error(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "gpuwire %s: ", command);
    vfprintf(stderr, format, args);
    /* Some end with a question. */
    fprintf(stderr, "%s `gpuwire %s --help`\n", format[strlen(format) - 1] == '?' ? " See" : "; see",
            command);
    va_end(args);
    return GW_EXIT_USAGE;
}

int gw_option_wrong(const char *command, char **argv, int option)
{
    const char *said = argv[optind - 1];
    if (option == ':') return gw_usage_error(command, "%s: it wants a value", said);
    if (!optopt) return gw_usage_error(command, "%s: no such option", said);
    if (!strncmp(said, "--", 2) && strchr(said, '='))
        return gw_usage_error(command, "%.*s: it takes no value", (int)strcspn(said, "="), said);
    return gw_usage_error(command, "-%c: no such option", optopt); /* perhaps one of several in a word */
}

int gw_option_number(const char *command, const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno || *end || value < min || value > max)
        return gw_usage_error(command, "%s %s: must be a number from %llu to %llu", option, text,
                              (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return 0;
}

int gw_option_writable(const char *option, const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        close(fd);
        unlink(path);
        return 0;
    }
    if (errno == EEXIST)
        errno = stat(path, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    return errno ? gw_error_errno(-errno, "%s cannot be written (%s says where)", path, option) : 0;
}

int gw_failed(const char *command)
{
    fprintf(stderr, "gpuwire %s: %s\n", command, gw_last_error());
    return GW_EXIT_FAILURE;
}

static unsigned signals; /* two may come at once, each to another thread */
static int signal_fd = -1;

static void on_signal(int number)
{
    uint64_t one = 1;
    int saved = errno;
    if (__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (write(signal_fd, &one, sizeof(one)) < 0) { /* it is full of earlier ones: readable anyway */
    }
    errno = saved;
}

void gw_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int hangup_fd = -1;

static void on_hangup(int number)
{
    uint64_t one = 1;
    int saved = errno;
    (void)number;
    if (write(hangup_fd, &one, sizeof(one)) < 0) { /* it is readable already */
    }
    errno = saved;
}

int gw_catch_hangup(void)
{
    struct sigaction action = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    hangup_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hangup_fd < 0) return gw_error_errno(-errno, "cannot make an eventfd");
    sigaction(SIGHUP, &action, NULL);
    return hangup_fd;
}

int gw_interrupted(void)
{
    return __atomic_load_n(&signals, __ATOMIC_RELAXED) != 0;
}
int gw_exit_code(int failed)
{
    return gw_interrupted() ? GW_EXIT_INTERRUPTED : failed ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
int gw_interrupt_fd(void)
{
    return signal_fd;
}

const char *gw_default_models(void)
{
    static const char *const places[] = {"..", "../share/gpuwire", "../.."};
    static char found[PATH_MAX];
    char path[PATH_MAX];

    if (gw_beside(places, sizeof(places) / sizeof(places[0]), "models", R_OK | X_OK, path)) return NULL;
    return realpath(path, found);
}
