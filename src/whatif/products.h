/* products.h - matrix products of which each rank has another share. */
#ifndef TAUT_WHATIF_PRODUCTS_H
#define TAUT_WHATIF_PRODUCTS_H

#include "whatif/compute.h"

struct tauti_product { /* batch times m x k by k x n */
	double batch, of[3]; /* m, k, n */
};
/* Of "[[8192, 512], [512, 4096]]" the first two lists of two numbers, or of
 * three, that fit each other. False: there are none, or one is 0. */
bool tauti_product_read(const char *text, struct tauti_product *ret);

/* By op of the graph below: new time / old where each rank has `factor` of the
 * share of each product that it had; 0: sizes do not tell, or it is none.
 * products: by op, 1: is one. balance: operations that the device does while it
 * moves a byte. ret_ratio: in the arena. */
taut_status tauti_products_share(struct tauti_whatif *w,
	const uint8_t *products, double factor, double balance,
	double **ret_ratio, uint32_t *ret_n, struct taut_error *err);

#endif /* TAUT_WHATIF_PRODUCTS_H */
