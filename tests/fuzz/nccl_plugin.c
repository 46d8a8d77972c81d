/* nccl_plugin.c - any order of NCCL's callbacks, with any handles. The bytes are
 * read as calls; whatever they are, each callback says success, and the log
 * holds only what it may hold.
 *
 *   call: byte 0 & 15 what, byte 1 which communicator and slot, byte 2 a number */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log_format.h"
#include "record/nccl/plugin.h"
#include "tests/support/nccl_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

extern const char ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3,
	ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;
static const void *const plugins[] = { &ncclProfiler_v1, &ncclProfiler_v2,
	&ncclProfiler_v3, &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6,
	&ncclProfiler_v7 };

/* A log is opened for so many inputs; for one each, at first. */
enum { HOSTS = 2, SLOTS = 16, RECORDS = 4096, PER_LOG = 256, ALONE = 64 };

struct play {
	struct host hosts[HOSTS];
	int inited[HOSTS];
	void *slots[SLOTS]; /* handles, of whatever and from whenever */
};

static char folder[64];
static uint64_t starts; /* of steps and tasks, since the log was opened */
static uint64_t inputs;

static void call(struct play *p, const uint8_t *c, void *invented)
{
	int which = c[1] & 1, number = c[2];
	struct host *h = &p->hosts[which];
	void **slot = &p->slots[c[1] >> 1 & 15];
	void *parent = p->slots[number & 15];

	if (!p->inited[which]) {
		MUST(!host_init(h, plugins[number % 7], number % 7 + 1,
			number & 64 ? "name" : NULL, (uint64_t)number, number % 9,
			number % 5));
		p->inited[which] = 1;
		return;
	}
	switch (c[0] & 15) {
	case 0:
		*slot = host_coll(h, (uint64_t)number, number % 8,
			(size_t)number << (number & 63), number % 10, number,
			number, number & 1, number % 3);
		break;
	case 1:
		*slot = host_p2p(h, number % 8, 1, number % 10, number - 3);
		break;
	case 2:
		*slot = host_op(h, parent, getpid() + (number == 77), number,
			number % 9 - 1, number & 1);
		break;
	case 3:
		*slot = host_step(h, parent, number - 8);
		break;
	case 4:
		*slot = host_kernel(h, parent, number, (uint64_t)number);
		break;
	case 5:
		MUST(!host_stop(h, *slot));
		break;
	case 6:
	case 7:
		MUST(!host_state(h, *slot, number % 32, (uint64_t)number * 64,
			number));
		break;
	case 8:
		MUST(!host_state_bare(h, *slot, number - 2));
		break;
	case 9:
		MUST(host_group(h) == NULL);
		break;
	case 10:
		*slot = invented;
		break;
	case 11: /* one bit of a handle is wrong */
		*slot = (void *)((uintptr_t)*slot ^ UINT64_C(1) << (number & 63));
		break;
	case 12:
		tauti_nccl_recording = number & 1;
		break;
	case 13:
		MUST(!host_finalize(h)); /* and again, and used after it */
		p->inited[which] = number & 1;
		break;
	case 14:
		h->context = number & 1 ? NULL : invented;
		break;
	default:
		h->rank = number;
	}
	starts += (c[0] & 15) < 4;
}

/* Each instant is in one sum; of a receive only those are told that make sense. */
static void check_sums(const struct tauti_log_record *it)
{
	int64_t took = it->end_ns - it->start_ns;
	int64_t told = it->u.chunk.gpu_late_ns + it->u.chunk.network_ns;

	MUST(it->u.chunk.network_ns >= 0);
	if (it->u.chunk.sends)
		MUST(told + it->u.chunk.peer_late_ns == took);
	else
		MUST(told <= took && it->u.chunk.peer_late_ns == -1);
}

/* Texts use slots of their own, whose bytes are no records. */
static void check_log(const char *path)
{
	static struct tauti_log_record records[RECORDS];
	struct tauti_log_header header;
	FILE *file = fopen(path, "rb");
	uint64_t used, events = 0;

	MUST(file && fread(&header, sizeof header, 1, file) == 1);
	MUST(!memcmp(header.magic, TAUTI_LOG_MAGIC, 8) && header.closed_ns);
	used = header.reserved < RECORDS ? header.reserved : RECORDS;
	MUST(!fseek(file, TAUTI_LOG_HEADER_BYTES, SEEK_SET));
	MUST(fread(records, sizeof *records, used, file) == used);
	fclose(file);
	unlink(path);
	for (uint64_t i = 0; i < used; i++) {
		const struct tauti_log_record *it = &records[i];

		if (it->type == TAUTI_LOG_TEXT)
			i += (it->u.text.bytes + 127) / 128;
		if (it->type != TAUTI_LOG_CHUNK && it->type != TAUTI_LOG_COMM)
			continue;
		events++;
		MUST(it->start_ns > 0 && it->end_ns >= it->start_ns);
		if (it->type == TAUTI_LOG_CHUNK && it->u.chunk.gpu_late_ns >= 0)
			check_sums(it);
	}
	MUST(events <= starts);
}

static void begin(void)
{
	if (folder[0])
		return;
	snprintf(folder, sizeof folder, "/tmp/taut-fuzz-nccl-%ld",
		(long)getpid());
	setenv("TAUT_RECORD", folder, 1);
	setenv("TAUT_NCCL_ALWAYS", "0", 1);
	setenv("TAUT_NCCL_EVENTS", "step,kernel", 1);
	setenv("TAUT_NCCL_RECORDS", "4096", 1);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "4", 1);
}

/* Closes the log and looks at it. */
static void end(void)
{
	char path[128];

	tauti_plugin_end();
	snprintf(path, sizeof path, "%s/rank1/nccl-%ld.tautlog", folder,
		(long)getpid());
	check_log(path);
	starts = 0;
	snprintf(path, sizeof path, "%s/rank1", folder);
	rmdir(path);
	rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play play = { .inited = { 0 } };

	if (size < 3)
		return 0;
	begin();
	tauti_nccl_recording = 1;
	for (size_t i = 0; i + 3 <= size; i += 3) {
		uint64_t bits = 0;

		memcpy(&bits, data + i, size - i < 8 ? size - i : 8);
		call(&play, data + i, (void *)(uintptr_t)bits);
	}
	for (int i = 0; i < HOSTS; i++)
		if (play.inited[i])
			MUST(!host_finalize(&play.hosts[i]));
	if (++inputs < ALONE || inputs % PER_LOG == 0)
		end();
	return 0;
}
