/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses Maglev's seed: from the file, from the secret that two balancers share, or per boot. */
#include "src/balance/control/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <gpuwire/error.h>

#include "src/balance/control/claim.h"
#include "src/door/secret.h"

static int of_secret(const char *file, uint64_t *seed)
{
    static const char what[] = "gpuwire maglev seed";
    uint8_t digest[EVP_MAX_MD_SIZE];
    char *secret;
    int err = gw_secret_take_token(NULL, file, &secret);
    if (err) return err;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) && EVP_DigestUpdate(c, what, sizeof(what)) &&
                EVP_DigestUpdate(c, secret, strlen(secret)) && EVP_DigestFinal_ex(c, digest, NULL);
    EVP_MD_CTX_free(c);
    gw_secret_forget(secret);
    if (!good) return gw_error(-ENOMEM, "%s: no seed can be made of it", file);
    memcpy(seed, digest, sizeof(*seed));
    return 0;
}

/* A seed that was kept is read, or else one is made and kept. */
static int of_boot(const char *run_dir, uint64_t *seed)
{
    char path[GW_BAL_TEXT + 32];
    int err = gw_bal_make_run_dir(run_dir);
    if (err) return err;
    snprintf(path, sizeof(path), "%s/maglev_seed", run_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return gw_error_errno(-errno, "%s", path);
    if (read(fd, seed, sizeof(*seed)) != sizeof(*seed)) {
        int made = getrandom(seed, sizeof(*seed), 0) == sizeof(*seed) &&
                   pwrite(fd, seed, sizeof(*seed), 0) == sizeof(*seed);
        if (!made) err = gw_error_errno(-errno, "%s", path);
    }
    close(fd);
    return err;
}

int gw_bal_seed(const struct gw_bal_global *g, uint64_t *seed)
{
    if (g->seed_file[0]) return of_secret(g->seed_file, seed);
    if (g->sync_key_file[0]) return of_secret(g->sync_key_file, seed);
    return of_boot(g->run_dir, seed);
}
