/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

/* Does a call come from a web page of another site? A browser lends every page its user's place in the
 * network, so a door that trusts that place must ask. Pure functions of the call's headers. */
#ifndef GW_DOOR_ORIGIN_H
#define GW_DOOR_ORIGIN_H

/* NULL: no foreign page has made this call. Otherwise why, for a 403. `host` and `origin` are the headers'
 * values; NULL: there is none. `names` are this server's names, with commas between them, beside localhost,
 * the machine's own name and all numeric addresses; NULL: no others. A page that has its name's address
 * changed to ours (DNS rebinding) still sends that name. A call without an Origin may also say a name
 * without a dot, which cannot be registered. Browsers send an Origin with every call that changes anything.
 */
const char *gw_http_foreign(const char *host, const char *origin, const char *names);

/* Is this value of Content-Type JSON? A page of another site may send a form or plain text without asking
 * first, but no JSON. NULL, no header, is none. */
bool gw_http_is_json(const char *type);

#endif
