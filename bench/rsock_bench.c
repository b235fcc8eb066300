/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librdmacm's rsockets do as sock_bench connect does: connections one after the other, each with a byte there
 * and back. `rsock_bench server|client ADDRESS PORT COUNT` prints connections a second.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rsocket.h>

static int stop(const char *what)
{
    fprintf(stderr, "rsock_bench: %s: %s\n", what, strerror(errno));
    return 1;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int serves, count, l = -1, s;
    double begin;
    char byte = 0;

    if (argc != 5 || inet_pton(AF_INET, argv[2], &a.sin_addr) != 1) {
        fprintf(stderr, "usage: rsock_bench server|client ADDRESS PORT COUNT\n");
        return 2;
    }
    serves = !strcmp(argv[1], "server");
    a.sin_port = htons((uint16_t)atoi(argv[3]));
    count = atoi(argv[4]);
    if (serves) {
        l = rsocket(AF_INET, SOCK_STREAM, 0);
        if (l < 0 || rbind(l, (struct sockaddr *)&a, sizeof(a)) || rlisten(l, 16)) return stop("listen");
    }
    begin = seconds();
    for (int i = 0; i < count; i++) {
        s = serves ? raccept(l, NULL, NULL) : rsocket(AF_INET, SOCK_STREAM, 0);
        if (s < 0 || (!serves && rconnect(s, (struct sockaddr *)&a, sizeof(a)))) return stop("connect");
        if (!serves && rsend(s, &byte, 1, 0) != 1) return stop("send");
        if (rrecv(s, &byte, 1, 0) != 1) return stop("receive");
        if (serves && rsend(s, &byte, 1, 0) != 1) return stop("send");
        rclose(s);
    }
    if (!serves) printf("%.0f\n", count / (seconds() - begin));
    return 0;
}
