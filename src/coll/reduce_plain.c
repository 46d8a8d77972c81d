/* reduce_plain.c - the kernels for any processor. */
#include "coll/reduce_loops.h"

TAUTI_REDUCE_SET(tauti_reduce_plain, "plain", half);
