/* unit.h - cmocka and the four headers that it wants before it. */
#ifndef TAUT_TESTS_UNIT_H
#define TAUT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UNIT_SKIP 77 /* exit status of a test program that cannot run here */

#endif /* TAUT_TESTS_UNIT_H */
