/* alloc_fail.h - lets the nth request for memory fail.
 *
 *     for (long n = 0; alloc_fail_after(n), !try_it(); n++)
 *             ;
 *     alloc_fail_never();
 *
 * Works for code that is linked in statically, through the linker's --wrap.
 * Threads: the countdown is shared; one test thread at a time sets it. */
#ifndef TAUT_TESTS_ALLOC_FAIL_H
#define TAUT_TESTS_ALLOC_FAIL_H

/* The next n requests succeed, all later ones fail. */
void alloc_fail_after(long n);
void alloc_fail_never(void);
/* Requests since either call. */
long alloc_fail_count(void);

#endif /* TAUT_TESTS_ALLOC_FAIL_H */
