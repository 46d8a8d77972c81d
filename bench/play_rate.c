/* play_rate.c - how fast collectives are played on a virtual clock.
 *
 *     play_rate [MBYTES]       default 16
 *
 * All-reduces of each way over 2 to 16 ranks on 4 hosts, in passes of 256 KiB, four
 * at once: virtual milliseconds, messages of all ranks and passes, microseconds of one
 * core to play it (the median of RUNS), and nanoseconds a message. Then, by size, what
 * taut_play_best() chooses, of how many candidates it played how many to their end,
 * and how long that took. */
#include <stdio.h>
#include <stdlib.h>

#include <taut/play.h>

enum { RUNS = 9, MOST = 16, HOSTS = 4 };

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

struct cluster {
	uint32_t host_of[MOST];
	struct taut_play_host hosts[HOSTS];
	struct taut_play_net net;
};

static void build(struct cluster *c, uint32_t n)
{
	for (uint32_t i = 0; i < HOSTS; i++)
		c->hosts[i] = (struct taut_play_host){ 1.25, 1.25, 12 };
	c->net = (struct taut_play_net){ .n_ranks = n,
		.n_hosts = n < HOSTS ? n : HOSTS, .host_of = c->host_of,
		.hosts = c->hosts, .local = 6, .network_ns = 20000,
		.local_ns = 600, .message_ns = 300, .reduce_ns = 0.1 };
	for (uint32_t r = 0; r < n; r++)
		c->host_of[r] = r * c->net.n_hosts / n;
}

static int play(const struct taut_play_net *net, enum taut_coll_way way,
	uint64_t bytes)
{
	struct taut_clock clock = taut_clock_monotonic();
	struct taut_play_call call = { .way = way, .count = bytes / 4,
		.element_bytes = 4, .pass_bytes = 256 << 10,
		.passes_at_once = 4 };
	struct taut_play_result r;
	struct taut_error err;
	int64_t ns[RUNS];

	for (int i = 0; i < RUNS; i++) {
		int64_t begin = clock.now_ns(clock.state);

		if (taut_play(net, &call, &r, &err)) {
			fprintf(stderr, "play_rate: %s\n", err.message);
			return 1;
		}
		ns[i] = clock.now_ns(clock.state) - begin;
	}
	qsort(ns, RUNS, sizeof ns[0], by_size);
	printf("%-10s %5u %10.3f %9llu %10.1f %8.0f\n",
		taut_coll_way_name(way), (unsigned)net->n_ranks,
		(double)r.time_ns / 1e6, (unsigned long long)r.n_messages,
		(double)ns[RUNS / 2] / 1e3,
		(double)ns[RUNS / 2] / (double)r.n_messages);
	return 0;
}

static int choose(const struct taut_play_net *net, uint64_t bytes)
{
	struct taut_clock clock = taut_clock_monotonic();
	struct taut_play_call call = { .count = bytes / 4, .element_bytes = 4 };
	struct taut_play_best best;
	struct taut_error err;
	int64_t ns = -clock.now_ns(clock.state);

	if (taut_play_best(net, &call, NULL, &best, &err)) {
		fprintf(stderr, "play_rate: %s\n", err.message);
		return 1;
	}
	ns += clock.now_ns(clock.state);
	printf("%9llu %5u %-9s %9llu %7u %10.3f %5u %5u %8.1f\n",
		(unsigned long long)bytes, (unsigned)net->n_ranks,
		taut_coll_way_name(best.call.way),
		(unsigned long long)best.call.pass_bytes,
		(unsigned)best.call.passes_at_once, (double)best.time_ns / 1e6,
		(unsigned)best.n_candidates, (unsigned)best.n_played,
		(double)ns / 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 16) << 20;
	struct cluster c;

	printf("%-10s %5s %10s %9s %10s %8s\n", "way", "ranks", "virtual ms",
		"messages", "us", "ns each");
	for (int way = TAUT_WAY_DIRECT; way < TAUT_WAYS; way++)
		for (uint32_t n = 2; n <= MOST; n *= 2) {
			build(&c, n);
			if (play(&c.net, (enum taut_coll_way)way, bytes))
				return 1;
		}
	printf("\n%9s %5s %-9s %9s %7s %10s %5s %5s %8s\n", "bytes", "ranks",
		"way", "pass", "at once", "virtual ms", "of", "ended", "ms");
	for (uint32_t n = 4; n <= 8; n += 4)
		for (uint64_t b = 256; b <= UINT64_C(256) << 20; b *= 16) {
			build(&c, n);
			if (choose(&c.net, b))
				return 1;
		}
	return 0;
}
