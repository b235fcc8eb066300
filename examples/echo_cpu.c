/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An echo with sockets, as every textbook has it: nothing of gpuwire. A peer of echo.c's kernels, which it
 * talks to as they talk to each other.
 *
 *     echo_cpu PORT          answers one connection with what it says
 *     echo_cpu PORT HOST     says something, a hundred times, and looks at the answers
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES  10000
#define ROUNDS 100

static void must(int ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

static void send_all(int s, const char *bytes, size_t n)
{
    ssize_t sent;

    for (; n; bytes += sent, n -= (size_t)sent) must((sent = send(s, bytes, n, 0)) > 0, "send");
}

static void serve(int s)
{
    static char bytes[BYTES];
    ssize_t n;

    while ((n = recv(s, bytes, sizeof(bytes), 0)) > 0) send_all(s, bytes, (size_t)n);
    must(!n, "recv");
}

static void ask(int s)
{
    static char said[BYTES], heard[BYTES];

    for (int i = 0; i < ROUNDS; i++) {
        memset(said, 'a' + i % 26, sizeof(said));
        send_all(s, said, sizeof(said));
        for (size_t got = 0; got < sizeof(heard);) {
            ssize_t n = recv(s, heard + got, sizeof(heard) - got, 0);

            must(n > 0, "recv");
            got += (size_t)n;
        }
        if (memcmp(said, heard, sizeof(said))) exit(fprintf(stderr, "the answer is not what was said\n"));
    }
    shutdown(s, SHUT_WR);
    must(!recv(s, heard, 1, 0), "the end");
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int s = socket(AF_INET, SOCK_STREAM, 0), on = 1, listener = -1;

    if (argc != 2 && argc != 3) return fprintf(stderr, "usage: %s PORT [HOST]\n", argv[0]), 2;
    a.sin_port = htons((uint16_t)atoi(argv[1]));
    must(s >= 0, "socket");
    if (argc == 3) {
        if (inet_pton(AF_INET, argv[2], &a.sin_addr) != 1)
            return fprintf(stderr, "%s: no address\n", argv[2]), 2;
        must(!connect(s, (struct sockaddr *)&a, sizeof(a)), "connect");
        ask(s);
    } else {
        listener = s;
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        must(!bind(listener, (struct sockaddr *)&a, sizeof(a)) && !listen(listener, 1), "listen");
        must((s = accept(listener, NULL, NULL)) >= 0, "accept");
        serve(s);
    }
    printf("%s\n", argc == 3 ? "all answers are right" : "answered");
    close(s);
    return listener >= 0 ? close(listener) : 0;
}
