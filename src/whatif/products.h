/* products.h - matrix products of which each rank has another share. */
#ifndef TAUT_WHATIF_PRODUCTS_H
#define TAUT_WHATIF_PRODUCTS_H

#include "whatif/compute.h"

/* By op of the graph below: new time / old where each rank has `factor` of the
 * share of each product that it had; 0: sizes do not tell, or it is none.
 * products: by op, 1: is one. balance: operations that the device does while it
 * moves a byte. ret_ratio: in the arena. */
taut_status tauti_products_share(struct tauti_whatif *w,
	const uint8_t *products, double factor, double balance,
	double **ret_ratio, uint32_t *ret_n, struct taut_error *err);

#endif /* TAUT_WHATIF_PRODUCTS_H */
