/* shapes.h - what taut record keeps of the window that it throws away: the
 * trace of one step, recorded with the shapes of all tensors. They are dear,
 * so the steps that count were recorded without; each of their operators is
 * lent what the same one said in that step.
 * Threads: one at a time for one builder. */
#ifndef TAUT_TRACE_SHAPES_H
#define TAUT_TRACE_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_builder;

/* Is it, by its name, such a file? */
bool tauti_shapes_named(const char *path);

/* Lends what builder->shapes says to the rows [begin, end), which are those
 * of the rank's trace and whose source has ended (tauti_builder_next_source());
 * a note counts the operators for which there was nothing. No shapes: nothing
 * is done. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_shapes_lend(
	struct tauti_builder *builder, size_t begin, size_t end);

TAUT_END_DECLS
#endif /* TAUT_TRACE_SHAPES_H */
