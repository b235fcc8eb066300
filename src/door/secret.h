/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

/* Secrets in files, and the token that calls have to bring. */
#ifndef GW_DOOR_SECRET_H
#define GW_DOOR_SECRET_H

/* The file's text, which gw_secret_forget frees; `option` is what names the file. 0 or a negative errno with
 * the reason in gw_last_error(). */
int gw_secret_read(const char *option, const char *path, char **text);
/* The token that is given, or that of a file of one line; *token is NULL when there is neither. */
int gw_secret_take_token(const char *given, const char *path, char **token);
/* NULL is allowed. */
void gw_secret_forget(char *secret);

/* Is this value of an Authorization header (NULL: there was none) "Bearer" and the token? NULL as the token:
 * everybody may call. */
bool gw_secret_allows(const char *token, const char *authorization);

#endif
