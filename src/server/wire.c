/* wire.c - what a worker and a server say, as bytes; see server.h. */
#include "server/server.h"

#include <string.h>

#include "coll/engines/shm.h"

static const int64_t least_lost_after_ns = 10000000; /* that another one may have */

static void put(uint8_t *to, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)from[i] << 8 * i;
	return value;
}

/* 'T' 'a', what, 0, then numbers of 4 bytes. */
static void put_head(uint8_t *to, enum tauti_tag what)
{
	memcpy(to, "Ta", 2);
	to[2] = (uint8_t)what;
	to[3] = 0;
}

static bool has_head(const uint8_t *from, enum tauti_tag what)
{
	return !memcmp(from, "Ta", 2) && from[2] == what && !from[3];
}

void tauti_asked_write(
	const struct tauti_asked *asked, uint8_t bytes[TAUTI_ASK_BYTES])
{
	put_head(bytes, TAUTI_TAG_ASK);
	put(bytes + 4, asked->ask, 4);
	put(bytes + 8, asked->part, 4);
	put(bytes + 12, asked->round, 4);
}

bool tauti_asked_read(
	const uint8_t bytes[TAUTI_ASK_BYTES], struct tauti_asked *ret_asked)
{
	const struct tauti_asked asked = { (uint32_t)get(bytes + 4, 4),
		(uint32_t)get(bytes + 8, 4), (uint32_t)get(bytes + 12, 4) };

	if (!has_head(bytes, TAUTI_TAG_ASK) || asked.part > TAUTI_PARTS_MOST)
		return false;
	*ret_asked = asked;
	return true;
}

void tauti_answer_write(
	const struct tauti_answer *answer, uint8_t bytes[TAUTI_ANSWER_BYTES])
{
	put_head(bytes, TAUTI_TAG_ANSWER);
	put(bytes + 4, answer->part, 4);
	put(bytes + 8, answer->round, 4);
	put(bytes + 12, answer->contributors, 4);
}

bool tauti_answer_read(
	const uint8_t bytes[TAUTI_ANSWER_BYTES], struct tauti_answer *ret_answer)
{
	if (!has_head(bytes, TAUTI_TAG_ANSWER))
		return false;
	*ret_answer = (struct tauti_answer){ (uint32_t)get(bytes + 4, 4),
		(uint32_t)get(bytes + 8, 4), (uint32_t)get(bytes + 12, 4) };
	return true;
}

/* The name is given to the system: one of ours and nothing else, or nothing at all. */
void tauti_board_write(const char *name, uint8_t bytes[TAUTI_BOARD_BYTES])
{
	memset(bytes, 0, TAUTI_BOARD_BYTES);
	put_head(bytes, TAUTI_TAG_BOARD);
	memcpy(bytes + 4, name, strnlen(name, TAUTI_BOARD_NAME_BYTES - 1));
}

bool tauti_board_read(const uint8_t bytes[TAUTI_BOARD_BYTES],
	char ret_name[TAUTI_BOARD_NAME_BYTES])
{
	static const uint8_t zeros[TAUTI_BOARD_BYTES];
	const char *name = (const char *)bytes + 4;
	size_t n = strnlen(name, TAUTI_BOARD_NAME_BYTES);

	if (!has_head(bytes, TAUTI_TAG_BOARD) || n == TAUTI_BOARD_NAME_BYTES ||
		memcmp(name + n, zeros, TAUTI_BOARD_BYTES - 4 - n) != 0 ||
		(n && !tauti_shm_is_name(name)))
		return false;
	memcpy(ret_name, name, TAUTI_BOARD_NAME_BYTES);
	return true;
}

void tauti_said_write(
	const struct tauti_part_said *said, uint8_t bytes[TAUTI_SAID_BYTES])
{
	put(bytes, said->part, 4);
	put(bytes + 4, said->type, 4);
	put(bytes + 8, said->count, 8);
	put(bytes + 16, said->hash, 8);
}

bool tauti_said_read(
	const uint8_t bytes[TAUTI_SAID_BYTES], struct tauti_part_said *ret_said)
{
	uint32_t part = (uint32_t)get(bytes, 4);
	uint32_t type = (uint32_t)get(bytes + 4, 4);
	uint64_t count = get(bytes + 8, 8);

	if (part >= TAUTI_PARTS_MOST || type >= TAUT_TYPES || !count ||
		count > UINT64_C(1) << 48)
		return false;
	*ret_said = (struct tauti_part_said){ part, (enum taut_type)type, count,
		get(bytes + 16, 8) };
	return true;
}

void tauti_greeting_write(const struct tauti_greeting *greeting,
	uint8_t bytes[TAUTI_GREETING_BYTES])
{
	uint64_t lost_after_ms = (uint64_t)greeting->lost_after_ns / 1000000;

	if (!lost_after_ms && greeting->lost_after_ns)
		lost_after_ms = 1;
	memset(bytes, 0, TAUTI_GREETING_BYTES);
	memcpy(bytes, "taut server", 12);
	put(bytes + 12, greeting->version, 4);
	put(bytes + 16, greeting->index, 2);
	put(bytes + 18, greeting->n_servers, 2);
	put(bytes + 20, lost_after_ms < UINT32_MAX ? lost_after_ms : UINT32_MAX, 4);
	put(bytes + 24, greeting->n_workers, 4);
	put(bytes + 28, greeting->mode, 2);
	put(bytes + 30, greeting->engine, 2);
	put(bytes + 32, greeting->host, 8);
}

uint16_t tauti_greeting_mode(const uint8_t bytes[TAUTI_GREETING_BYTES])
{
	return (uint16_t)get(bytes + 28, 2);
}

uint16_t tauti_greeting_engine(const uint8_t bytes[TAUTI_GREETING_BYTES])
{
	return (uint16_t)get(bytes + 30, 2);
}

int64_t tauti_greeting_beat_ns(const struct tauti_greeting *own,
	const uint8_t bytes[TAUTI_GREETING_BYTES])
{
	int64_t others_ns = (int64_t)get(bytes + 20, 4) * 1000000;

	if (others_ns && others_ns < least_lost_after_ns)
		others_ns = least_lost_after_ns;
	return (others_ns ? tauti_earlier_ns(others_ns, own->lost_after_ns) :
		own->lost_after_ns) / 4;
}

bool tauti_greeting_is_near(const struct tauti_greeting *own,
	const uint8_t bytes[TAUTI_GREETING_BYTES])
{
	return own->host && own->host == get(bytes + 32, 8);
}

static const char *mode_text(uint32_t mode)
{
	static const char *const texts[TAUT_SERVER_MODES] = {
		"does anything", "sums rounds", "makes an optimizer's step each "
		"round", "adds up all pushes, asynchronously", "makes an "
		"optimizer's step for each push, asynchronously" };

	return mode < TAUT_SERVER_MODES ? texts[mode] : "does what it does not "
		"say";
}

taut_status tauti_greeting_check(const struct tauti_greeting *own,
	const uint8_t bytes[TAUTI_GREETING_BYTES], const char *who,
	struct taut_error *reterr)
{
	const struct tauti_greeting said = { (uint32_t)get(bytes + 12, 4),
		(uint32_t)get(bytes + 16, 2), (uint32_t)get(bytes + 18, 2),
		(uint32_t)get(bytes + 24, 4), tauti_greeting_mode(bytes),
		tauti_greeting_engine(bytes), get(bytes + 32, 8), 0 };

	if (memcmp(bytes, "taut server", 12) != 0)
		return taut_error_set(reterr, TAUT_EMATCH, -1,
			"%.200s is of no parameter server", who);
	if (said.version != own->version)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "%.200s speaks "
			"version %u of the servers, this one %u", who,
			said.version, own->version);
	if (said.index != own->index || said.n_servers != own->n_servers ||
		said.n_workers != own->n_workers)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "%.200s counts "
			"server %u of %u for %u workers, this one server %u of "
			"%u for %u", who, said.index, said.n_servers,
			said.n_workers, own->index, own->n_servers,
			own->n_workers);
	if (said.mode && own->mode && said.mode != own->mode)
		return taut_error_set(reterr, TAUT_EMATCH, -1, "%.200s %s, and "
			"this one is for what %s", who, mode_text(said.mode),
			mode_text(own->mode));
	return TAUT_OK;
}
