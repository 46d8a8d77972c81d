/* whatif.c - changes and sweeps as a user may write them, and sizes as a
 * recording may: one input is one of each. */
#include <stdlib.h>
#include <string.h>

#include "whatif/products.h"
#include "whatif/sweep.h"
#include "whatif/whatif.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Every reader of values, whatever the parameter is. */
static void read_values(const struct tauti_change *c)
{
	for (size_t i = 0; i < c->is->info.n_parameters; i++) {
		struct taut_error err;
		bool is_factor;
		uint32_t count;
		double value;

		if (!tauti_param_given(c, i))
			continue;
		(void)!tauti_param_count(c, i, 0, 1000, &count, &err);
		(void)!tauti_param_number(c, i, 0, 1, &value, &err);
		(void)!tauti_param_word(c, i, &count, &err);
		if (tauti_param_share(c, i, &value) && !(value >= 0))
			abort();
		for (int unit = TAUTI_BITS_PER_S; unit <= TAUTI_BYTES_PER_S;
			unit++)
			if (!tauti_param_scaled(c, i, (enum tauti_unit)unit,
				&is_factor, &value, &err) && !(value >= 0))
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_product product;
	struct tauti_change change;
	struct tauti_sweep sweep;
	struct taut_error err;
	char *text = arena ? taut_arena_strndup(
		arena, (const char *)bytes, len) : NULL;

	if (text && !tauti_change_read(text, arena, &change, &err))
		read_values(&change);
	if (text && !tauti_sweep_read(text, arena, &sweep, &err) &&
		(!sweep.n_points || sweep.n_points > TAUTI_SWEEP_MOST))
		abort();
	if (text && tauti_product_read(text, &product) &&
		!(product.batch >= 1 && product.of[0] >= 1 &&
		product.of[1] >= 1 && product.of[2] >= 1))
		abort();
	taut_arena_destroy(arena);
	return 0;
}
