/* archive.c - see archive.h.
 *
 * An archive is blocks of 512 bytes: of each member a header and, behind it, what it
 * holds, filled up to a block; then blocks of zeros. Members of some types hold no file,
 * but what is to be known of the next one: a name that is too long for its header, or, in
 * pax, records "length key=value\n". */
#include "load/sources/archive.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "load/set.h"

/* Where the fields of a header are. */
enum {
	NAME_AT = 0, NAME_BYTES = 100,
	SIZE_AT = 124, SIZE_BYTES = 12,
	SUM_AT = 148, SUM_BYTES = 8,
	TYPE_AT = 156,
	MAGIC_AT = 257,
	PREFIX_AT = 345, PREFIX_BYTES = 155,
	MOST_TOLD_BYTES = 1 << 20, /* of a long name or the records of pax */
	/* Archives are filled up with zeros to so much, mostly to 10240. */
	END_BYTES = 65536,
};

static taut_status fault(const struct tauti_archive *archive, uint64_t at,
	const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)at, "%s: byte %llu: %s",
		archive->bytes->path, (unsigned long long)at, what);
}

/* --- bytes -------------------------------------------------------------------------------*/

static taut_status fill_window(
	struct tauti_archive_bytes *bytes, uint64_t offset, struct taut_error *err)
{
	uint64_t left = bytes->size - offset;
	size_t want = left < TAUTI_ARCHIVE_WINDOW ? (size_t)left :
						    TAUTI_ARCHIVE_WINDOW;

	bytes->at = offset;
	for (bytes->n = 0; bytes->n < want;) {
		ssize_t n = pread(bytes->fd, bytes->window + bytes->n,
			want - bytes->n, (off_t)(offset + bytes->n));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return taut_error_set(err, TAUT_EIO, (int64_t)offset,
				"%s: byte %llu: cannot be read: %s", bytes->path,
				(unsigned long long)(offset + bytes->n),
				n ? strerror(errno) : "the file has become shorter");
		bytes->n += (size_t)n;
	}
	return TAUT_OK;
}

taut_status tauti_archive_read(struct tauti_archive_bytes *bytes, uint64_t offset,
	size_t n, const unsigned char **ret_at, struct taut_error *err)
{
	if (bytes->memory) {
		*ret_at = bytes->memory + offset;
		return TAUT_OK;
	}
	if (offset < bytes->at || offset + n > bytes->at + bytes->n) {
		taut_status status = fill_window(bytes, offset, err);

		if (status)
			return status;
	}
	*ret_at = bytes->window + (offset - bytes->at);
	return TAUT_OK;
}

/* --- fields ------------------------------------------------------------------------------*/

/* Octal digits, or, with the highest bit set, a binary number. A field without digits is
 * 0, as some writers have it. */
static bool read_number(const unsigned char *field, size_t n, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	if (field[0] & 0x80) {
		value = field[0] & 0x7f;
		for (i = 1; i < n; i++) {
			if (value >> 55)
				return false; /* negative ones, too */
			value = value << 8 | field[i];
		}
		*ret = value;
		return true;
	}
	while (i < n && field[i] == ' ')
		i++;
	for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	for (; i < n; i++)
		if (field[i] && field[i] != ' ')
			return false;
	*ret = value;
	return true;
}

/* Its sum is that of all bytes, with spaces in its own place. Some old writers took
 * bytes as signed. */
static bool is_sum_right(const unsigned char *block)
{
	int64_t sum = 0, signed_sum = 0;
	uint64_t expected;

	for (size_t i = 0; i < TAUTI_ARCHIVE_BLOCK; i++) {
		bool own = i >= SUM_AT && i < SUM_AT + SUM_BYTES;
		unsigned char byte = own ? ' ' : block[i];

		sum += byte;
		signed_sum += (signed char)byte;
	}
	return read_number(block + SUM_AT, SUM_BYTES, &expected) &&
		((int64_t)expected == sum || (int64_t)expected == signed_sum);
}

static bool is_empty(const unsigned char *block)
{
	for (size_t i = 0; i < TAUTI_ARCHIVE_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

bool tauti_archive_is_header(const unsigned char *block, size_t n)
{
	return n >= TAUTI_ARCHIVE_BLOCK && !is_empty(block) && is_sum_right(block);
}

/* --- names -------------------------------------------------------------------------------*/

static taut_status no_memory(const struct tauti_archive *archive, struct taut_error *err)
{
	return tauti_set_no_memory(archive->bytes->path, err);
}

static size_t length(const unsigned char *field, size_t n)
{
	return strnlen((const char *)field, n);
}

static bool append_name(struct tauti_archive *archive, const void *text, size_t n)
{
	if (!taut_vec_reserve(&archive->name, n + 1))
		return false;
	memcpy(archive->name.data + archive->name.count, text, n);
	archive->name.count += n;
	archive->name.data[archive->name.count] = 0;
	return true;
}

/* The name that the header itself has; GNU's headers have other things in place of the
 * prefix. */
static bool name_by_header(struct tauti_archive *archive, const unsigned char *block)
{
	const unsigned char *prefix = block + PREFIX_AT;
	bool posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0;

	if (posix && *prefix && (!append_name(archive, prefix,
			length(prefix, PREFIX_BYTES)) ||
			!append_name(archive, "/", 1)))
		return false;
	return append_name(archive, block + NAME_AT,
		length(block + NAME_AT, NAME_BYTES));
}

/* All that a member holds, into the name. */
static taut_status read_told(struct tauti_archive *archive, uint64_t offset,
	uint64_t n, struct taut_error *err)
{
	taut_vec_clear(&archive->name);
	if (n > MOST_TOLD_BYTES)
		return fault(archive, offset, "a name or header of more than 1 MiB; "
			"the archive is damaged", err);
	while (n) {
		size_t piece = n < TAUTI_ARCHIVE_WINDOW ? (size_t)n :
							  TAUTI_ARCHIVE_WINDOW;
		const unsigned char *at;
		taut_status status = tauti_archive_read(
			archive->bytes, offset, piece, &at, err);

		if (status)
			return status;
		if (!append_name(archive, at, piece))
			return no_memory(archive, err);
		offset += piece;
		n -= piece;
	}
	return TAUT_OK;
}

static taut_status read_long_name(struct tauti_archive *archive, uint64_t offset,
	uint64_t n, struct taut_error *err)
{
	taut_status status = read_told(archive, offset, n, err);

	if (!status && archive->name.count)
		archive->name.count = strlen(archive->name.data);
	return status;
}

/* --- pax ---------------------------------------------------------------------------------*/

struct record {
	const char *key, *value; /* value_len bytes, without the newline */
	size_t key_len, value_len;
};

/* Decimal digits from *at, before end; at most 2^60. */
static bool read_decimal(const char **at, const char *end, uint64_t *ret)
{
	const char *begin = *at;
	uint64_t value = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
		value = value * 10 + (uint64_t)(**at - '0');
		if (value >> 60)
			return false;
	}
	*ret = value;
	return *at > begin;
}

/* The record at *at, which moves behind it. */
static bool next_record(const char **at, const char *end, struct record *ret)
{
	const char *begin = *at, *equals, *behind;
	uint64_t n;

	if (!read_decimal(at, end, &n) || *at == end || **at != ' ' ||
		n > (uint64_t)(end - begin))
		return false;
	++*at;
	behind = begin + n;
	if (behind <= *at || behind[-1] != '\n')
		return false;
	equals = memchr(*at, '=', (size_t)(behind - *at));
	if (!equals)
		return false;
	*ret = (struct record){ .key = *at, .key_len = (size_t)(equals - *at),
		.value = equals + 1, .value_len = (size_t)(behind - equals - 2) };
	*at = behind;
	return true;
}

static bool is_key(const struct record *record, const char *key)
{
	return strlen(key) == record->key_len &&
		memcmp(key, record->key, record->key_len) == 0;
}

/* What a record says of the next member. A path is noted by where it lies in the text. */
static bool take_record(struct tauti_archive *archive, const struct record *record,
	struct record *path)
{
	static const char sparse[] = "GNU.sparse.";
	const char *at = record->value, *end = at + record->value_len;

	if (is_key(record, "path"))
		*path = *record;
	if (record->key_len >= sizeof sparse - 1 &&
		memcmp(record->key, sparse, sizeof sparse - 1) == 0)
		archive->is_sparse = true;
	if (!is_key(record, "size"))
		return true;
	archive->has_size = true;
	return read_decimal(&at, end, &archive->size) && at == end;
}

static taut_status read_pax(struct tauti_archive *archive, uint64_t offset, uint64_t n,
	struct taut_error *err)
{
	TAUT_VEC(char) before;
	struct record record, path = { .value_len = 0 };
	taut_status status;
	const char *at, *begin, *end;

	if (!n)
		return TAUT_OK;
	/* A long name that came before it stays, unless this has one. */
	memcpy(&before, &archive->name, sizeof before);
	memset(&archive->name, 0, sizeof archive->name);
	status = read_told(archive, offset, n, err);
	at = archive->name.data;
	end = at + archive->name.count;
	for (begin = at; !status && at < end; begin = at)
		if (!next_record(&at, end, &record) ||
			!take_record(archive, &record, &path))
			status = fault(archive, offset + (uint64_t)(begin -
				archive->name.data), "a record of a pax header is "
				"damaged; expected \"length key=value\"", err);
	if (status || !path.value_len) {
		taut_vec_free(&archive->name);
		memcpy(&archive->name, &before, sizeof before);
		return status;
	}
	archive->name.count = strnlen(path.value, path.value_len);
	memmove(archive->name.data, path.value, archive->name.count);
	archive->name.data[archive->name.count] = 0;
	taut_vec_free(&before);
	return TAUT_OK;
}

/* --- members -----------------------------------------------------------------------------*/

static taut_status read_header(struct tauti_archive *archive,
	const unsigned char **ret_block, struct taut_error *err)
{
	uint64_t size = archive->bytes->size;

	if (size - archive->next < TAUTI_ARCHIVE_BLOCK)
		return taut_error_set(err, TAUT_EFORMAT, (int64_t)size,
			"%s: byte %llu: the file ends, without the empty block "
			"that ends an archive; it was cut short",
			archive->bytes->path, (unsigned long long)size);
	return tauti_archive_read(archive->bytes, archive->next,
		TAUTI_ARCHIVE_BLOCK, ret_block, err);
}

/* Readers of archives end here, so what `cat a.tar b.tar` put behind is not seen by
 * them: somebody thinks that it is. */
static taut_status check_end(struct tauti_archive *archive, struct taut_error *err)
{
	uint64_t begin = archive->next;
	const unsigned char *block;

	while (archive->next - begin < END_BYTES &&
		archive->bytes->size - archive->next >= TAUTI_ARCHIVE_BLOCK) {
		taut_status status = read_header(archive, &block, err);

		if (status)
			return status;
		if (tauti_archive_is_header(block, TAUTI_ARCHIVE_BLOCK))
			return fault(archive, archive->next, "another archive "
				"begins behind the end of this one, which no reader "
				"would see; expected each in a file", err);
		archive->next += TAUTI_ARCHIVE_BLOCK;
	}
	return TAUT_OK;
}

/* Where a header's member ends, and the next begins. */
static taut_status go_behind(struct tauti_archive *archive, uint64_t offset,
	uint64_t bytes, struct taut_error *err)
{
	uint64_t left = archive->bytes->size - offset;
	uint64_t filled = bytes + (-bytes & (TAUTI_ARCHIVE_BLOCK - 1));

	if (bytes > left || filled > left)
		return taut_error_set(err, TAUT_EFORMAT, (int64_t)archive->next,
			"%s: byte %llu: a member of %llu bytes, and the file ends at "
			"%llu; it was cut short, or is damaged",
			archive->bytes->path, (unsigned long long)archive->next,
			(unsigned long long)bytes,
			(unsigned long long)archive->bytes->size);
	archive->next = offset + filled;
	return TAUT_OK;
}

/* Types of members that are not followed by anything, whatever size they say. */
static bool is_bare(char type)
{
	return type >= '1' && type <= '6';
}

static bool is_file(char type)
{
	return type == '0' || type == 0 || type == '7';
}

/* Is what it holds about the next one? */
static bool tells(char type)
{
	return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

static taut_status take_file(struct tauti_archive *archive,
	const unsigned char *block, struct tauti_member *ret, struct taut_error *err)
{
	if (!archive->name.count && !name_by_header(archive, block))
		return no_memory(archive, err);
	ret->name = archive->name.data;
	ret->name_len = archive->name.count;
	if (!archive->is_sparse)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)ret->at,
		"%s: byte %llu: '%s' is sparse, so its bytes do not lie together; pack "
		"it without --sparse", archive->bytes->path,
		(unsigned long long)ret->at, tauti_shown(ret->name,
			ret->name_len).text);
}

/* What was told of one member does not hold for those behind it. */
static void forget(struct tauti_archive *archive)
{
	taut_vec_clear(&archive->name);
	archive->has_size = archive->is_sparse = false;
}

/* One header and what it is followed by; *ret_file: it was a file. */
static taut_status take_member(struct tauti_archive *archive, struct tauti_member *ret,
	bool *ret_file, struct taut_error *err)
{
	unsigned char block[TAUTI_ARCHIVE_BLOCK];
	const unsigned char *at;
	uint64_t size;
	taut_status status = read_header(archive, &at, err);
	char type;

	if (status)
		return status;
	memcpy(block, at, sizeof block);
	if (!is_sum_right(block))
		return fault(archive, archive->next, "not the header of a member: "
			"its sum is wrong; the archive is damaged", err);
	type = (char)block[TYPE_AT];
	if (!read_number(block + SIZE_AT, SIZE_BYTES, &size))
		return fault(archive, archive->next, "a member's size is not a "
			"number; the archive is damaged", err);
	*ret_file = is_file(type) || type == 'S';
	archive->is_sparse |= type == 'S';
	if (archive->has_size && !tells(type))
		size = archive->size;
	*ret = (struct tauti_member){ .at = archive->next,
		.offset = archive->next + TAUTI_ARCHIVE_BLOCK,
		.bytes = is_bare(type) ? 0 : size };
	if (*ret_file)
		status = take_file(archive, block, ret, err);
	else if (!tells(type))
		forget(archive);
	if (!status)
		status = go_behind(archive, ret->offset, ret->bytes, err);
	if (!status && type == 'L')
		status = read_long_name(archive, ret->offset, size, err);
	if (!status && type == 'x')
		status = read_pax(archive, ret->offset, size, err);
	if (!status && type == 'M')
		status = fault(archive, ret->at, "goes on with a file of another "
			"volume; pack it without --multi-volume", err);
	return status;
}

static bool tells_of_next(const struct tauti_archive *archive)
{
	return archive->name.count || archive->has_size || archive->is_sparse;
}

static taut_status next_header(struct tauti_archive *archive,
	struct tauti_member *ret, bool *ret_file, bool *ret_end, struct taut_error *err)
{
	const unsigned char *block;
	taut_status status = read_header(archive, &block, err);

	if (status)
		return status;
	*ret_end = is_empty(block);
	if (!*ret_end)
		return take_member(archive, ret, ret_file, err);
	if (tells_of_next(archive))
		return fault(archive, archive->next, "the archive ends behind the name "
			"of a member that is not there; it is damaged", err);
	return check_end(archive, err);
}

taut_status tauti_archive_next(struct tauti_archive *archive,
	struct tauti_member *ret_member, bool *ret_end, struct taut_error *err)
{
	bool end = false, file = false;

	forget(archive);
	while (!end && !file) {
		taut_status status =
			next_header(archive, ret_member, &file, &end, err);

		if (status)
			return status;
	}
	*ret_end = end;
	return TAUT_OK;
}

void tauti_archive_init(
	struct tauti_archive *archive, struct tauti_archive_bytes *bytes)
{
	*archive = (struct tauti_archive){ .bytes = bytes };
}

void tauti_archive_fini(struct tauti_archive *archive)
{
	taut_vec_free(&archive->name);
}
