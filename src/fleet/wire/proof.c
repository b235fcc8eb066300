/* SPDX-License-Identifier: Apache-2.0 */
/* Nonces and proofs of the handshake. */
#include "src/fleet/wire/proof.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>

int fleet_proof_nonce(uint8_t nonce[FLEET_PROOF])
{
    ssize_t n = getrandom(nonce, FLEET_PROOF, 0);
    return n == FLEET_PROOF ? 0 : gw_error_errno(n < 0 ? -errno : -EIO, "getrandom");
}

int fleet_proof_make(const char *token, bool of_dialler, const struct fleet_hello *dialler,
                     const struct fleet_hello *listener, struct fleet_proof *out)
{
    struct {
        char what[31], of;
        struct fleet_hello hello[2];
    } said = {"gpuwire fleet, proof of the", of_dialler ? 'D' : 'L', {*dialler, *listener}};
    unsigned bytes = sizeof(out->proof);
    memset(out, 0, sizeof(*out));
    if (!token) return 0;
    bool good = HMAC(EVP_sha256(), token, (int)strlen(token), (const unsigned char *)&said, sizeof(said),
                     out->proof, &bytes) != NULL;
    return good && bytes == sizeof(out->proof) ? 0 : gw_error(-ENOMEM, "no HMAC-SHA256 can be had");
}

bool fleet_proof_equal(const struct fleet_proof *a, const struct fleet_proof *b)
{
    return !CRYPTO_memcmp(a, b, sizeof(*a));
}
