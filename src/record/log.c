/* log.c - the writer of event logs: a mapped file of fixed records. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <taut/record.h>

#include "base/hash.h"
#include "base/log_format.h"
#include "record/log.h"

enum {
	DEFAULT_CAPACITY = 131072,
	TABLE_SLOTS = 16384, /* of texts; a power of two */
	PAGE_BYTES = 4096,
	ZERO_BYTES = 4096,
};

struct text {
	uint32_t hash, id; /* id 0: the place is free */
	uint32_t slot, bytes; /* where its bytes are in the log */
};

struct taut_log {
	struct tauti_log_header *header; /* the mapping */
	struct tauti_log_record *records;
	size_t bytes;	   /* of the mapping */
	uint64_t capacity; /* the mapping's own copy is not believed */
	int fd;		   /* locked as long as the log is open */
	/* Not zero in the process that opened the log: the page is one that
	 * the kernel empties in a child, where it can (wiped). */
	const uint32_t *mine;
	bool wiped;
	pid_t pid;
	uint32_t n_texts; /* atomic */
	pthread_mutex_t lock; /* of what follows, and of the header's texts */
	struct text texts[TABLE_SLOTS];
};

int64_t taut_log_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- opening ------------------------------------------------------------------*/

static void copy_text(char *to, size_t size, const char *text)
{
	size_t len = strnlen(text, size - 1);

	memcpy(to, text, len);
	memset(to + len, 0, size - len);
}

/* Without the newline; "" when the file cannot be read. */
static void read_line(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
}

static void host_name(char *out, size_t size)
{
	if (gethostname(out, size))
		out[0] = '\0';
	out[size - 1] = '\0';
}

void tauti_log_clock_name(char *out, size_t size)
{
	char boot[40], host[65];
	size_t len, n;

	read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
	host_name(host, sizeof host);
	len = strlen(boot);
	n = strlen(host);
	memcpy(out, boot, len);
	out[len++] = '/';
	if (n < size - len) {
		memcpy(out + len, host, n + 1);
		return;
	}
	/* Long names of hosts often begin alike. */
	for (uint64_t hash = tauti_hash(host, n); hash; hash >>= 4)
		out[len++] = "0123456789abcdef"[hash & 15];
	out[len] = '\0';
}

void tauti_log_process_name(char *out, size_t size)
{
	const unsigned long first = 0xEFFFFFFC; /* the kernel's PROC_PID_INIT_INO */
	char host[65], boot[40], space[32] = "";
	unsigned long inode;

	host_name(host, sizeof host);
	for (char *at = host; *at; at++)
		if (*at == '/')
			*at = '_';
	read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
	(void)!readlink("/proc/self/ns/pid", space, sizeof space - 1);
	if (sscanf(space, "pid:[%lu]", &inode) != 1 ||
		inode == first)
		snprintf(out, size, "%s-%d", *host ? host : "localhost",
			(int)getpid());
	else
		snprintf(out, size, "%s.%.8s.%lx-%d", *host ? host : "localhost",
			boot, inode, (int)getpid());
}

/* File systems without fallocate: what was written is reserved as well. */
static int write_zeros(int fd, size_t bytes)
{
	static const char zeros[ZERO_BYTES];
	size_t done = 0;

	while (done < bytes) {
		size_t some = bytes - done;
		ssize_t n = pwrite(fd, zeros,
			some < sizeof zeros ? some : sizeof zeros, (off_t)done);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

/* A file that is too large for the process's limit would mean a signal. */
static bool is_allowed(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || bytes <= limit.rlim_cur;
}

static int reserve(int fd, size_t bytes)
{
	if (!is_allowed(bytes))
		return EFBIG;
	while (fallocate(fd, 0, 0, (off_t)bytes)) {
		if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
			return write_zeros(fd, bytes);
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

static taut_status map_file(
	struct taut_log *log, const char *path, struct taut_error *err)
{
	int fault = reserve(log->fd, log->bytes);
	void *at;

	if (fault)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot reserve %zu bytes: %s", path, log->bytes,
			strerror(fault));
	at = mmap(NULL, log->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		log->fd, 0);
	if (at == MAP_FAILED)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot be mapped: %s", path, strerror(errno));
	log->header = at;
	log->records = (void *)((char *)at + TAUTI_LOG_HEADER_BYTES);
	return TAUT_OK;
}

static taut_status create_file(
	struct taut_log *log, const char *path, struct taut_error *err)
{
	taut_status status;

	log->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (log->fd < 0)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot be created: %s", path, strerror(errno));
	/* Tells others that somebody still writes; nothing depends on it. */
	(void)!flock(log->fd, LOCK_EX | LOCK_NB);
	status = map_file(log, path, err);
	if (status) {
		unlink(path);
		close(log->fd);
	}
	return status;
}

static bool map_mark(struct taut_log *log)
{
	uint32_t *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	*page = 1;
	log->mine = page;
#ifdef MADV_WIPEONFORK
	log->wiped = !madvise(page, PAGE_BYTES, MADV_WIPEONFORK);
#endif
	log->pid = getpid();
	return true;
}

static void write_header(
	struct taut_log *log, const struct taut_log_options *options)
{
	struct tauti_log_header *header = log->header;
	char host[65];

	host_name(host, sizeof host);
	header->header_bytes = TAUTI_LOG_HEADER_BYTES;
	header->record_bytes = TAUTI_LOG_RECORD_BYTES;
	header->rank = options->rank;
	header->world_size = options->world_size;
	header->local_rank = options->local_rank;
	header->pid = (int32_t)log->pid;
	header->capacity = log->capacity;
	header->opened_ns = taut_log_now();
	copy_text(header->host, sizeof header->host, host);
	tauti_log_clock_name(header->clock, sizeof header->clock);
	copy_text(header->source, sizeof header->source,
		options->source ? options->source : "");
	memcpy(header->magic, TAUTI_LOG_MAGIC, sizeof header->magic);
}

taut_status taut_log_open(const char *path,
	const struct taut_log_options *options, struct taut_log **ret_log,
	struct taut_error *reterr)
{
	uint32_t capacity = options->capacity ? options->capacity :
		DEFAULT_CAPACITY;
	struct taut_log *log;
	taut_status status;

	if (capacity > TAUTI_LOG_MOST_RECORDS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "%s: expected "
			"at most %u records, found %u", path,
			TAUTI_LOG_MOST_RECORDS, capacity);
	log = calloc(1, sizeof *log);
	if (!log || !map_mark(log)) {
		free(log);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"%s: no memory for a log", path);
	}
	log->capacity = capacity;
	log->bytes = TAUTI_LOG_HEADER_BYTES +
		(size_t)capacity * TAUTI_LOG_RECORD_BYTES;
	status = create_file(log, path, reterr);
	if (status) {
		munmap((void *)log->mine, PAGE_BYTES);
		free(log);
		return status;
	}
	pthread_mutex_init(&log->lock, NULL);
	write_header(log, options);
	*ret_log = log;
	return TAUT_OK;
}

/* False in a child, whose events are not the parent's. */
static bool is_mine(const struct taut_log *log)
{
	return log->wiped ? *log->mine != 0 : getpid() == log->pid;
}

void taut_log_close(struct taut_log *log)
{
	uint64_t used;
	bool mine;

	if (!log)
		return;
	mine = is_mine(log);
	used = __atomic_load_n(&log->header->reserved, __ATOMIC_RELAXED);
	if (used > log->capacity)
		used = log->capacity;
	if (mine)
		log->header->closed_ns = taut_log_now();
	munmap(log->header, log->bytes);
	munmap((void *)log->mine, PAGE_BYTES);
	/* Where it stays larger than it must be, nothing is wrong. */
	if (mine)
		(void)!ftruncate(log->fd, (off_t)(TAUTI_LOG_HEADER_BYTES +
			used * TAUTI_LOG_RECORD_BYTES));
	close(log->fd);
	if (mine)
		pthread_mutex_destroy(&log->lock);
	free(log);
}

/* --- the header -----------------------------------------------------------------*/

static void set_number(int32_t *to, int32_t number)
{
	if (number >= 0)
		__atomic_store_n(to, number, __ATOMIC_RELAXED);
}

void taut_log_ranks(struct taut_log *log, int32_t rank, int32_t world_size,
	int32_t local_rank)
{
	if (!is_mine(log))
		return;
	set_number(&log->header->rank, rank);
	set_number(&log->header->world_size, world_size);
	set_number(&log->header->local_rank, local_rank);
}

void taut_log_state(struct taut_log *log, const char *line)
{
	if (!is_mine(log))
		return;
	pthread_mutex_lock(&log->lock);
	copy_text(log->header->state, sizeof log->header->state, line);
	pthread_mutex_unlock(&log->lock);
}

/* --- records ----------------------------------------------------------------------*/

/* n slots in a row, the first one's index; false: no room, or not ours. */
static bool take_slots(struct taut_log *log, uint64_t n, uint64_t *ret_slot)
{
	uint64_t slot;

	if (!is_mine(log))
		return false;
	slot = __atomic_fetch_add(&log->header->reserved, n, __ATOMIC_RELAXED);
	*ret_slot = slot;
	return slot < log->capacity && n <= log->capacity - slot;
}

static struct tauti_log_record *take_record(struct taut_log *log)
{
	uint64_t slot;

	return take_slots(log, 1, &slot) ? &log->records[slot] : NULL;
}

static void finish(struct tauti_log_record *record, enum tauti_log_type type)
{
	__atomic_store_n(&record->type, (uint32_t)type, __ATOMIC_RELEASE);
}

/* 0: no room; else the text's id, and the slot it is in. */
static uint32_t append_text(
	struct taut_log *log, const char *text, size_t len, uint64_t *ret_slot)
{
	uint64_t n = 1 + (len + TAUTI_LOG_RECORD_BYTES - 1) /
		TAUTI_LOG_RECORD_BYTES;
	struct tauti_log_record *record;
	uint32_t id;

	if (__atomic_load_n(&log->n_texts, __ATOMIC_RELAXED) >=
			TAUTI_LOG_MOST_TEXTS ||
		!take_slots(log, n, ret_slot))
		return 0;
	id = __atomic_add_fetch(&log->n_texts, 1, __ATOMIC_RELAXED);
	record = &log->records[*ret_slot];
	record->name = id;
	record->u.text.bytes = (uint32_t)len;
	/* Before the bytes, which a reader would take for records if the
	 * process ended here; nobody knows the id yet. */
	finish(record, TAUTI_LOG_TEXT);
	memcpy(record + 1, text, len);
	return id;
}

static uint32_t write_text(
	struct taut_log *log, struct text *place, const char *text, size_t len)
{
	uint64_t slot;
	uint32_t id = append_text(log, text, len, &slot);

	if (!id)
		return 0;
	place->slot = (uint32_t)slot;
	place->bytes = (uint32_t)len;
	place->id = id;
	return id;
}

static uint32_t find_or_write(
	struct taut_log *log, uint32_t hash, const char *text, size_t len)
{
	for (uint32_t i = hash;; i++) {
		struct text *place = &log->texts[i & (TABLE_SLOTS - 1)];

		if (!place->id) {
			place->hash = hash;
			return write_text(log, place, text, len);
		}
		if (place->hash == hash && place->bytes == len &&
			!memcmp(&log->records[place->slot + 1], text, len))
			return place->id;
	}
}

uint32_t taut_log_text(struct taut_log *log, const char *text)
{
	size_t len = text ? strnlen(text, TAUTI_LOG_TEXT_BYTES) : 0;
	uint32_t id;

	if (!len || !is_mine(log))
		return 0;
	pthread_mutex_lock(&log->lock);
	id = find_or_write(log, (uint32_t)tauti_hash(text, len), text, len);
	pthread_mutex_unlock(&log->lock);
	return id;
}

uint32_t tauti_log_text_anew(struct taut_log *log, const char *text)
{
	size_t len = strnlen(text, TAUTI_LOG_TEXT_BYTES);
	uint64_t slot;

	return len ? append_text(log, text, len, &slot) : 0;
}

static void name_lane(
	struct taut_log *log, int64_t lane, const char *name, uint32_t kind)
{
	uint32_t id = taut_log_text(log, name);
	struct tauti_log_record *record = take_record(log);

	if (!record)
		return;
	record->name = id;
	record->lane = lane;
	record->kind = kind;
	finish(record, TAUTI_LOG_LANE);
}

void taut_log_lane(struct taut_log *log, int64_t lane, const char *name)
{
	name_lane(log, lane, name, 0);
}

void taut_log_chunk_lane(struct taut_log *log, int64_t lane, const char *name)
{
	name_lane(log, lane, name, TAUTI_LOG_KIND_CHUNK);
}

static struct tauti_log_record *take_event(struct taut_log *log,
	uint32_t name, uint32_t kind, int64_t lane, int64_t start_ns,
	int64_t end_ns, uint32_t correlation)
{
	struct tauti_log_record *record = take_record(log);

	if (!record)
		return NULL;
	record->name = name;
	record->kind = kind;
	record->lane = lane;
	record->start_ns = start_ns;
	record->end_ns = end_ns;
	record->correlation = correlation;
	return record;
}

void taut_log_span(struct taut_log *log, uint32_t name, uint32_t kind,
	int64_t lane, int64_t start_ns, int64_t end_ns, uint32_t correlation)
{
	struct tauti_log_record *record = take_event(log, name, kind, lane,
		start_ns, end_ns, correlation);

	if (record)
		finish(record, TAUTI_LOG_SPAN);
}

void taut_log_comm(struct taut_log *log, uint32_t name, uint32_t kind,
	int64_t lane, int64_t start_ns, int64_t end_ns, uint32_t correlation,
	const struct taut_log_comm *comm)
{
	struct tauti_log_record *record = take_event(log, name, kind, lane,
		start_ns, end_ns, correlation);

	if (!record)
		return;
	record->u.comm.collective = comm->collective;
	record->u.comm.group = comm->group;
	record->u.comm.group_ranks = comm->group_ranks;
	record->u.comm.dtype = comm->dtype;
	record->u.comm.in_elements = comm->in_elements;
	record->u.comm.out_elements = comm->out_elements;
	record->u.comm.seq = comm->seq;
	record->u.comm.group_size = comm->group_size;
	record->u.comm.src = comm->src;
	record->u.comm.dst = comm->dst;
	record->u.comm.root = comm->root;
	finish(record, TAUTI_LOG_COMM);
}

void taut_log_chunk(struct taut_log *log, uint32_t name, int64_t lane,
	int64_t start_ns, int64_t end_ns, uint32_t correlation,
	const struct taut_log_chunk *chunk)
{
	struct tauti_log_record *record = take_event(
		log, name, 0, lane, start_ns, end_ns, correlation);

	if (!record)
		return;
	record->u.chunk.peer = chunk->peer;
	record->u.chunk.channel = chunk->channel;
	record->u.chunk.step = chunk->step;
	record->u.chunk.sends = chunk->sends;
	record->u.chunk.bytes = chunk->bytes;
	record->u.chunk.gpu_late_ns = chunk->gpu_late_ns;
	record->u.chunk.peer_late_ns = chunk->peer_late_ns;
	record->u.chunk.network_ns = chunk->network_ns;
	finish(record, TAUTI_LOG_CHUNK);
}

void taut_log_load(struct taut_log *log, uint32_t name, uint32_t kind,
	int64_t lane, int64_t start_ns, int64_t end_ns, uint32_t correlation,
	const struct taut_log_load *load)
{
	struct tauti_log_record *record = take_event(log, name, kind, lane,
		start_ns, end_ns, correlation);

	if (!record)
		return;
	record->u.load.cpu_ns = load->cpu_ns;
	record->u.load.queued_ns = load->queued_ns;
	record->u.load.others_ns = load->others_ns;
	record->u.load.read_bytes = load->read_bytes;
	record->u.load.storage_bytes = load->storage_bytes;
	record->u.load.samples = load->samples;
	finish(record, TAUTI_LOG_LOAD);
}

void taut_log_gradient(struct taut_log *log, uint32_t exchange, uint32_t task,
	uint32_t dtype, int64_t elements)
{
	struct tauti_log_record *record = take_record(log);

	if (!record)
		return;
	record->u.gradient.exchange = exchange;
	record->u.gradient.task = task;
	record->u.gradient.dtype = dtype;
	record->u.gradient.elements = elements;
	finish(record, TAUTI_LOG_GRADIENT);
}

void taut_log_sum_call(struct taut_log *log, uint32_t exchange, uint32_t task,
	int waits, int64_t lane, int64_t start_ns, int64_t end_ns)
{
	struct tauti_log_record *record = take_event(
		log, 0, 0, lane, start_ns, end_ns, 0);

	if (!record)
		return;
	record->u.sum_call.exchange = exchange;
	record->u.sum_call.task = task;
	record->u.sum_call.waits = waits != 0;
	finish(record, TAUTI_LOG_SUM_CALL);
}

void taut_log_piece(struct taut_log *log, int64_t start_ns, int64_t end_ns,
	const struct taut_log_piece *piece)
{
	struct tauti_log_record *record = take_event(
		log, 0, 0, 0, start_ns, end_ns, 0);

	if (!record)
		return;
	record->u.piece.exchange = piece->exchange;
	record->u.piece.task = piece->task;
	record->u.piece.group = piece->group;
	record->u.piece.group_ranks = piece->group_ranks;
	record->u.piece.group_size = piece->group_size;
	record->u.piece.message = piece->message;
	record->u.piece.bytes = piece->bytes;
	finish(record, TAUTI_LOG_PIECE);
}

void taut_log_fact(struct taut_log *log, const char *key, const char *value)
{
	uint32_t key_id = taut_log_text(log, key);
	uint32_t value_id = taut_log_text(log, value);
	struct tauti_log_record *record = take_record(log);

	if (!record)
		return;
	record->name = key_id;
	record->u.fact.value = value_id;
	finish(record, TAUTI_LOG_FACT);
}

void taut_log_clock(
	struct taut_log *log, const struct taut_clock_offset *offset)
{
	struct tauti_log_record *record = take_event(
		log, 0, 0, 0, offset->at_ns, offset->at_ns, 0);

	if (!record)
		return;
	record->u.clock.offset_ns = offset->offset_ns;
	record->u.clock.half_width_ns = offset->half_width_ns;
	finish(record, TAUTI_LOG_CLOCK);
}
