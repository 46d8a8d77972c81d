/* clock_test.c - a real server, asked over loopback; and servers that lie. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <unistd.h>

#include <taut/record.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

static struct taut_clock_server *start(uint16_t *ret_port)
{
	struct taut_clock_server *server = NULL;
	struct taut_error err = { .message = "" };

	*ret_port = 0;
	assert_int_equal(taut_clock_serve(&server, ret_port, &err), TAUT_OK);
	assert_non_null(server);
	assert_int_not_equal(*ret_port, 0);
	return server;
}

/* Both ends have one clock: the offset is zero, within the bound. */
static void expect_no_offset(const char *host, uint16_t port)
{
	struct taut_clock_offset offset = { .answers = 0 };
	struct taut_error err = { .message = "" };
	int64_t before = taut_log_now();

	assert_int_equal(taut_clock_ask(host, port, 0, 10000, &offset, &err),
		TAUT_OK);
	assert_true(offset.answers >= 128);
	assert_true(offset.answers <= 256);
	assert_true(llabs(offset.offset_ns) <= offset.half_width_ns);
	assert_true(offset.half_width_ns > 0);
	assert_true(offset.half_width_ns < 5000000);
	assert_in_range(offset.at_ns, before, taut_log_now());
}

static void test_loopback(void **state)
{
	(void)state;
	uint16_t port;
	struct taut_clock_server *server = start(&port);

	expect_no_offset("127.0.0.1", port);
	expect_no_offset("localhost", port);
	taut_clock_stop(server);
	taut_clock_stop(NULL);
}

static void test_six(void **state)
{
	(void)state;
	struct sockaddr_in6 at = { .sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	int has_none = fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at);

	if (fd >= 0)
		close(fd);
	if (has_none)
		skip();
	uint16_t port;
	struct taut_clock_server *server = start(&port);

	expect_no_offset("::1", port);
	taut_clock_stop(server);
}

static void *ask_some(void *context)
{
	expect_no_offset("127.0.0.1", *(const uint16_t *)context);
	return NULL;
}

static void test_many_ask_at_once(void **state)
{
	(void)state;
	uint16_t port;
	struct taut_clock_server *server = start(&port);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(
			&threads[i], NULL, ask_some, &port), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	taut_clock_stop(server);
}

static void test_nobody_answers(void **state)
{
	(void)state;
	struct taut_clock_offset offset = { .answers = 7 };
	struct taut_error err = { .message = "" };
	uint16_t port;

	taut_clock_stop(start(&port)); /* a port where nobody is now */
	assert_int_equal(taut_clock_ask("127.0.0.1", port, 0, 100, &offset,
		&err), TAUT_EIO);
	assert_non_null(strstr(err.message, "no answer"));
	assert_int_equal(offset.answers, 7);
	assert_int_equal(taut_clock_ask("no such host", port, 0, 100, &offset,
		&err), TAUT_EIO);
	assert_non_null(strstr(err.message, "clock of no such host"));
}

static void test_stop_in_a_child(void **state)
{
	(void)state;
	uint16_t port;
	struct taut_clock_server *server = start(&port);
	pid_t child = fork();
	int status;

	if (!child) {
		taut_clock_stop(server);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect_no_offset("127.0.0.1", port);
	taut_clock_stop(server);
}

/* --- what comes from the wire is believed only when it can be true ----------------*/

struct wire {
	char magic[8];
	uint64_t nonce;
	int64_t received_ns, answered_ns;
};

struct liar {
	int fd;
	uint16_t port;
	void (*lie)(struct wire *wire);
	size_t bytes; /* of its answers */
};

/* Answers until somebody sends one byte. */
static void *lie_on(void *context)
{
	const struct liar *liar = context;
	struct sockaddr_in from;
	struct wire wire[2];

	for (;;) {
		socklen_t from_bytes = sizeof from;
		ssize_t n = recvfrom(liar->fd, wire, sizeof wire, 0,
			(struct sockaddr *)&from, &from_bytes);

		if (n == 1)
			return NULL;
		assert_int_equal(n, sizeof wire[0]);
		wire[0].received_ns = wire[0].answered_ns = taut_log_now();
		liar->lie(&wire[0]);
		sendto(liar->fd, wire, liar->bytes, 0,
			(struct sockaddr *)&from, from_bytes);
	}
}

static int open_loopback(uint16_t *ret_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	getsockname(fd, (struct sockaddr *)&at, &bytes);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static void send_to(int fd, uint16_t port, const void *what, size_t bytes)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	assert_int_equal(sendto(fd, what, bytes, 0, (struct sockaddr *)&at,
		sizeof at), bytes);
}

static taut_status ask_liar(void (*lie)(struct wire *wire), size_t bytes,
	struct taut_clock_offset *ret_offset)
{
	struct liar liar = { .lie = lie, .bytes = bytes };
	struct taut_error err;
	pthread_t thread;
	taut_status status;

	liar.fd = open_loopback(&liar.port);
	pthread_create(&thread, NULL, lie_on, &liar);
	status = taut_clock_ask(
		"127.0.0.1", liar.port, 4, 150, ret_offset, &err);
	send_to(liar.fd, liar.port, "", 1);
	pthread_join(thread, NULL);
	close(liar.fd);
	return status;
}

static void tell_the_truth(struct wire *wire)
{
	(void)wire;
}

static void be_ahead(struct wire *wire)
{
	wire->received_ns += 1000000000;
	wire->answered_ns += 1000000000;
}

static void spoil_magic(struct wire *wire)
{
	wire->magic[0] = 'x';
}

static void spoil_nonce(struct wire *wire)
{
	wire->nonce++;
}

static void answer_before(struct wire *wire)
{
	wire->answered_ns = wire->received_ns - 1;
}

static void take_longer_than_it_took(struct wire *wire)
{
	wire->answered_ns += 1000000000;
}

static void be_huge(struct wire *wire)
{
	wire->received_ns = INT64_MAX - 1;
	wire->answered_ns = INT64_MAX;
}

static void be_negative(struct wire *wire)
{
	wire->received_ns = INT64_MIN;
	wire->answered_ns = INT64_MIN + 1;
}

static void test_an_offset_is_found(void **state)
{
	(void)state;
	struct taut_clock_offset offset = { .answers = 0 };

	assert_int_equal(ask_liar(be_ahead, sizeof(struct wire), &offset),
		TAUT_OK);
	assert_int_equal(offset.answers, 4);
	assert_true(llabs(offset.offset_ns - 1000000000) <=
		offset.half_width_ns);
}

static void test_lies(void **state)
{
	(void)state;
	void (*const lies[])(struct wire *) = { spoil_magic, spoil_nonce,
		answer_before, take_longer_than_it_took, be_huge, be_negative };
	struct taut_clock_offset offset = { .answers = 0 };

	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++)
		assert_int_equal(ask_liar(lies[i], sizeof(struct wire),
			&offset), TAUT_EIO);
	assert_int_equal(ask_liar(tell_the_truth, 5, &offset), TAUT_EIO);
	assert_int_equal(ask_liar(tell_the_truth, 2 * sizeof(struct wire),
		&offset), TAUT_EIO);
	assert_int_equal(ask_liar(tell_the_truth, sizeof(struct wire),
		&offset), TAUT_OK);
}

/* The server answers a question and nothing else, and stays there. */
static void test_foreign_questions(void **state)
{
	(void)state;
	struct wire good = { .magic = "TAUTCLK", .nonce = 5 }, bad;
	uint16_t port, own;
	struct taut_clock_server *server = start(&port);
	int fd = open_loopback(&own);

	good.magic[7] = '1';
	bad = good;
	bad.magic[0] = 'x';
	send_to(fd, port, &bad, sizeof bad);
	send_to(fd, port, &good, 5);
	send_to(fd, port, (struct wire[2]){ good, good }, 2 * sizeof good);
	bad = good;
	bad.answered_ns = 1; /* an answer */
	send_to(fd, port, &bad, sizeof bad);
	good.nonce = 6;
	send_to(fd, port, &good, sizeof good);
	memset(&bad, 0, sizeof bad);
	assert_int_equal(recv(fd, &bad, sizeof bad, 0), sizeof bad);
	assert_int_equal(bad.nonce, 6); /* the first answer of all */
	assert_int_not_equal(recv(fd, &bad, sizeof bad, MSG_DONTWAIT),
		sizeof bad);
	close(fd);
	taut_clock_stop(server);
}

static void test_no_memory(void **state)
{
	(void)state;
	struct taut_clock_server *server = NULL;
	uint16_t port;

	alloc_fail_after(0);
	taut_status status = taut_clock_serve(&server, &port, NULL);

	alloc_fail_never();
	assert_int_equal(status, TAUT_ENOMEM);
	assert_null(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_six),
		cmocka_unit_test(test_many_ask_at_once),
		cmocka_unit_test(test_nobody_answers),
		cmocka_unit_test(test_stop_in_a_child),
		cmocka_unit_test(test_an_offset_is_found),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_foreign_questions),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
