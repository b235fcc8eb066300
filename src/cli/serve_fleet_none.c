/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire serve --fleet, in a build without fleets. */
#include "src/cli/serve_fleet.h"

#include "src/cli/options.h"

int gw_cli_serve_fleet(const struct gw_cli_serving *all)
{
    (void)all;
    return gw_usage_error("serve",
                          "--fleet: this gpuwire was built without it; CMake's GW_FLEET=ON builds it");
}
