/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's door in front of a source without a model, for clients: serve_fake TOKEN_US SLOTS [BEARER_TOKEN].
 * It prints its port, and ends with its standard input. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/signals.h>

#include "src/generate/openai/door.h"
#include "tests/generate/openai/words.h"

int main(int argc, char **argv)
{
    struct words w;
    struct gen_openai_door *door;
    struct pollfd in = {.fd = 0, .events = POLLIN};
    char byte;
    if (argc < 3) return 2;
    gw_catch_signals();
    int err = words_open(&w, strtoull(argv[1], NULL, 10) * 1000, (uint32_t)atoi(argv[2]));
    struct gen_openai_opts opts = {
        .service = &w.service, .services = 1, .http.token = argc > 3 ? argv[3] : NULL, .executor = "none"};
    if (!err) err = gen_openai_open(&opts, &door);
    if (err) {
        fprintf(stderr, "serve_fake: %s\n", gw_last_error());
        return 1;
    }
    printf("%u\n", gen_openai_port(door));
    fflush(stdout);
    while (!gw_interrupted()) {
        gen_openai_tend(door);
        if (poll(&in, 1, 100) > 0 && read(0, &byte, 1) <= 0) break;
    }
    gen_service_drain(w.service);
    gen_openai_close(door);
    if (fake_source_streams(w.fake)) fprintf(stderr, "serve_fake: streams are left\n");
    words_close(&w);
    return 0;
}
