/* flags: -DLINKED */
#include "lookups.c"
