/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests to the model `echo` that take a place of the server's and keep it: their last bytes come
 * later. */
#ifndef TESTS_SERVE_HOLD_H
#define TESTS_SERVE_HOLD_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOLD_BYTES 256 /* of echo's input */

/* `server` is IPV4:PORT. Sends all but the last byte. The connection; -1: there is none. */
static inline int hold_begin(const char *server)
{
    static const char json[] =
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,64],\"parameters\":"
        "{\"binary_data_size\":256}}]}";
    char text[1024] = "", host[16] = "";
    struct sockaddr_in to = {.sin_family = AF_INET};
    unsigned port = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sscanf(server, "%15[0-9.]:%u", host, &port) != 2 || inet_pton(AF_INET, host, &to.sin_addr) != 1)
        return -1;
    to.sin_port = htons((uint16_t)port);
    int n = snprintf(text, sizeof(text),
                     "POST /v2/models/echo/infer HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n"
                     "Inference-Header-Content-Length: %zu\r\n\r\n%s",
                     strlen(json) + HOLD_BYTES, strlen(json), json);
    size_t all = (size_t)n + HOLD_BYTES - 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) || send(fd, text, all, 0) != (ssize_t)all)
        return -1;
    return fd;
}

/* Sends the last byte. 0: it was answered with 200. */
static inline int hold_end(int fd)
{
    char answer[64] = "";
    int sent = send(fd, "", 1, MSG_NOSIGNAL) == 1;
    int right = sent && recv(fd, answer, 12, MSG_WAITALL) == 12 && !memcmp(answer, "HTTP/1.1 200", 12);
    close(fd);
    return right ? 0 : -1;
}

#endif
