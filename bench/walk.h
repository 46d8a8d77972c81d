/* walk.h - a bare simdjson walk, the yardstick of read_columns. */
#ifndef TAUT_BENCH_WALK_H
#define TAUT_BENCH_WALK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Visits every value of the JSON text by simdjson's on-demand interface and
 * returns their number, 0 on an error. raw: strings and numbers are found,
 * but neither unescaped nor converted. The text must be followed by
 * BENCH_WALK_PAD bytes. */
#define BENCH_WALK_PAD 64
uint64_t bench_walk(const char *text, size_t len, int raw);

#ifdef __cplusplus
}
#endif
#endif /* TAUT_BENCH_WALK_H */
