/* SPDX-License-Identifier: Apache-2.0 */
/* Reads secrets from files, and compares tokens in constant time. */
#include "src/door/secret.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define FILE_BYTES (256u << 10) /* of a certificate, a key or a token */

int gw_secret_read(const char *option, const char *path, char **out)
{
    FILE *f = fopen(path, "re");
    char *text = calloc(1, FILE_BYTES + 1);
    size_t n = f && text ? fread(text, 1, FILE_BYTES + 1, f) : 0;
    int err = !text ? -ENOMEM : !f || ferror(f) ? -errno : 0;
    if (f) fclose(f);
    if (!err && n > FILE_BYTES)
        err = gw_error(-EFBIG, "%s %s: larger than %u KiB", option, path, FILE_BYTES >> 10);
    else if (err)
        gw_error_errno(err, "%s %s", option, path);
    if (err)
        free(text);
    else
        *out = text;
    return err;
}

#define TOKEN_LEAST 16u

static int door_secret_read_token(const char *path, char **token)
{
    int err = gw_secret_read("--token-file", path, token);
    if (err) return err;
    size_t n = strcspn(*token, "\r\n");
    int more = (*token)[n + strspn(*token + n, "\r\n")] != 0;
    (*token)[n] = 0;
    if (n >= TOKEN_LEAST && !more && strlen(*token) == n) return 0;
    free(*token);
    *token = NULL;
    return gw_error(-EINVAL, "--token-file %s: expected one line with a token of at least %u characters",
                    path, TOKEN_LEAST);
}

int gw_secret_take_token(const char *given, const char *path, char **token)
{
    *token = NULL;
    if (!given) return path ? door_secret_read_token(path, token) : 0;
    if (strlen(given) < TOKEN_LEAST || strpbrk(given, "\r\n"))
        return gw_error(-EINVAL, "a token is one line of at least %u characters", TOKEN_LEAST);
    *token = strdup(given);
    return *token ? 0 : gw_error(-ENOMEM, "no memory for the token");
}

void gw_secret_forget(char *secret)
{
    if (secret) explicit_bzero(secret, strlen(secret));
    free(secret);
}

/* Looks at every byte, wherever the first wrong one is. */
static bool is_token(const char *token, const char *given)
{
    size_t length = strlen(token);
    unsigned different = 0;
    if (strlen(given) != length) return false;
    for (size_t i = 0; i < length; i++) different |= (unsigned)(token[i] ^ given[i]);
    return !different;
}

bool gw_secret_allows(const char *token, const char *authorization)
{
    if (!token) return true;
    return authorization && !strncasecmp(authorization, "Bearer ", 7) && is_token(token, authorization + 7);
}
