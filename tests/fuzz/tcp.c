/* tcp.c - what another rank sends over TCP, of which nothing is believed. The input is what
 * this rank does and what it hears, a byte of what and a byte of how much at a time:
 *
 *     'r' 'R'  asks for a message with that tag, of as many bytes (x 100)
 *     '+'      for one to be reduced
 *     's'      sends one
 *     else     that many bytes behind it come from the other, as they are */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coll/engines/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 14, ASKED = 64 };

struct asked {
	struct taut_coll_request request; /* first */
	char *memory; /* so that what is written behind it is found */
	int n_done;
};

static void end(struct taut_coll_request *request, taut_status status)
{
	struct asked *it = (struct asked *)request;

	(void)status;
	if (++it->n_done != 1)
		abort();
}

static taut_status ask(struct tauti_tcp *tcp, uint8_t what, uint8_t how, struct asked *it)
{
	const struct taut_coll_engine *table = &tauti_tcp_engine;
	size_t bytes = what == 'R' ? how * (size_t)100 : how;
	const uint32_t peer = 1;

	*it = (struct asked){ { end }, calloc(1, 4 * bytes + 1), 0 };
	if (!it->memory)
		abort();
	if (what == 's')
		return table->send(tcp, &peer, 1, how, it->memory, bytes, &it->request, NULL);
	if (what == '+')
		return table->recv_reduce(tcp, 1, how % 8, TAUT_FLOAT32, TAUT_SUM,
			it->memory, it->memory, bytes, &it->request, NULL);
	return table->recv(tcp, 1, how % 8, it->memory, bytes, &it->request, NULL);
}

static bool is_asking(uint8_t what)
{
	return what == 'r' || what == 'R' || what == '+' || what == 's';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct asked asked[ASKED];
	struct tauti_tcp *tcp;
	size_t n = 0;
	int ends[2];
	char sink[256];

	if (size > MOST || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
		return 0;
	if (tauti_tcp_open(0, 2, &tcp, NULL) || tauti_tcp_give(tcp, 1, ends[0], NULL))
		abort();
	while (size >= 2) {
		uint8_t what = data[0], how = data[1];

		data += 2;
		size -= 2;
		if (is_asking(what)) {
			if (n < ASKED && ask(tcp, what, how, &asked[n]))
				abort();
			n += n < ASKED;
		} else {
			size_t some = how < size ? how : size;

			(void)!send(ends[1], data, some, MSG_DONTWAIT | MSG_NOSIGNAL);
			data += some;
			size -= some;
		}
		(void)!recv(ends[1], sink, sizeof sink, MSG_DONTWAIT);
		(void)tauti_tcp_engine.progress(tcp, NULL);
		(void)tauti_tcp_engine.arrived(tcp, 1, UINT64_MAX);
	}
	close(ends[1]); /* or what nobody reads is waited for */
	tauti_tcp_engine.destroy(tcp);
	for (size_t i = 0; i < n; i++) {
		if (asked[i].n_done != 1)
			abort();
		free(asked[i].memory);
	}
	return 0;
}
