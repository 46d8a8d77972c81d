/* interval.c - a median and its interval; see stalls.h.
 *
 * Rounds are few (3 to 10), so Student's t is taken for what their noise is. Each is a
 * ratio of times within seconds of each other, or a rate, whose logarithm is as likely to
 * be above as below: the mean of it is what the median estimates. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "stalls/stalls.h"

/* 97.5 % of Student's t lie below, for 1, 2, ... degrees of freedom. */
static const double student[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
	2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086 };
enum { N_STUDENT = sizeof student / sizeof *student };

static double student_of(uint32_t freedom)
{
	if (freedom <= N_STUDENT)
		return student[freedom - 1];
	return 1.960 + 2.5 / freedom;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double tauti_stalls_middle(double *values, size_t n)
{
	assert(n > 0);
	qsort(values, n, sizeof *values, by_value);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Half the width around *ret_mean. */
static double half_width(const double *values, uint32_t n, double *ret_mean)
{
	double mean = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++)
		mean += values[i] / n;
	for (uint32_t i = 0; i < n; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	*ret_mean = mean;
	return n > 1 ? student_of(n - 1) * sqrt(squares / (n - 1) / n) : 0;
}

/* Around the mean of values; around `middle` where they are not to be averaged. */
static struct taut_stalls_value around(
	double *values, uint32_t n, bool are_rates, const double *middle)
{
	struct taut_stalls_value ret = { .n_rounds = n };
	double mean, half;

	for (uint32_t i = 0; are_rates && i < n; i++)
		values[i] = log(values[i]);
	half = half_width(values, n, &mean);
	ret.low = are_rates ? exp(mean - half) : mean - half;
	ret.high = are_rates ? exp(fmin(mean + half, 700)) : mean + half;
	ret.value = middle ? *middle : are_rates ? exp(fmin(mean, 700)) : mean;
	ret.low = fmin(ret.low, ret.value);
	ret.high = fmax(ret.high, ret.value);
	return ret;
}

struct taut_stalls_value tauti_stalls_interval(double *values, uint32_t n, bool are_rates)
{
	double middle = tauti_stalls_middle(values, n);

	if (n == 1)
		return (struct taut_stalls_value){ middle, middle, middle, 1 };
	return around(values, n, are_rates, &middle);
}

struct taut_stalls_value tauti_stalls_interval_of_runs(
	double *values, uint32_t n, bool are_rates)
{
	return around(values, n, are_rates, NULL);
}
