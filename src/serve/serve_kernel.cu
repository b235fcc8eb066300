#include "src/serve/serve_kernel.h"
