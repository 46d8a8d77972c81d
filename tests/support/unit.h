/* unit.h - cmocka and the four headers that it wants before it. */
#ifndef TAUT_TESTS_UNIT_H
#define TAUT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UNIT_SKIP 77 /* exit status of a test program that cannot run here */

/* Of n random worlds, those that a build with a sanitizer plays: faults of memory show
 * in the first of them, and what all of them prove is proven without it. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNIT_ROUNDS(n) ((n) / 10)
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_ROUNDS(n) ((n) / 10)
#elif !defined(UNIT_ROUNDS)
#define UNIT_ROUNDS(n) (n)
#endif

#endif /* TAUT_TESTS_UNIT_H */
