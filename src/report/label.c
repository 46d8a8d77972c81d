/* label.c - see label.h. */
#include "report/label.h"

#include <stdbool.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT 0xfffdu

/* --- UTF-8 and columns ------------------------------------------------------*/

unsigned tauti_utf8_next(const char *text, size_t *ret_length)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	size_t n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 :
		s[0] < 0xf5 ? 4 : 0;
	unsigned code = n ? s[0] & (0x7fu >> n) : 0;

	*ret_length = s[0] ? 1 : 0;
	if (s[0] < 0x80)
		return s[0];
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return REPLACEMENT;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if (!n || code < least[n] || code > 0x10ffff ||
		(code & ~0x7ffu) == 0xd800)
		return REPLACEMENT;
	*ret_length = n;
	return code;
}

struct range {
	unsigned first, last;
};

static bool in(const struct range *ranges, size_t n, unsigned code)
{
	for (size_t i = 0; i < n; i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/* The blocks that matter for names; a terminal may differ on rare ones. */
static int width_of(unsigned code)
{
	static const struct range none[] = { { 0x300, 0x36f },
		{ 0x200b, 0x200f }, { 0x202a, 0x202e }, { 0x2060, 0x206f },
		{ 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff } };
	static const struct range wide[] = { { 0x1100, 0x115f },
		{ 0x2e80, 0x303e }, { 0x3041, 0xa4cf }, { 0xac00, 0xd7a3 },
		{ 0xf900, 0xfaff }, { 0xfe30, 0xfe6f }, { 0xff01, 0xff60 },
		{ 0xffe0, 0xffe6 }, { 0x1f300, 0x1f64f }, { 0x1f680, 0x1f6ff },
		{ 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd } };

	if (code < 0x300)
		return 1;
	if (in(none, sizeof none / sizeof none[0], code))
		return 0;
	return in(wide, sizeof wide / sizeof wide[0], code) ? 2 : 1;
}

/* Length of a colour sequence at text, 0 when there is none. */
static size_t colour_length(const char *text)
{
	size_t n = 2;

	if (text[0] != '\033' || text[1] != '[')
		return 0;
	while ((text[n] >= '0' && text[n] <= '9') || text[n] == ';')
		n++;
	return text[n] == 'm' ? n + 1 : 0;
}

int tauti_columns(const char *text)
{
	int columns = 0;

	while (*text) {
		size_t n = colour_length(text);

		if (!n)
			columns += width_of(tauti_utf8_next(text, &n));
		text += n;
	}
	return columns;
}

/* --- C++ names ---------------------------------------------------------------*/

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c >= '0' && c <= '9') || c == '_';
}

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* A template's bracket stands behind a word, Python's "<listcomp>" does not.
 * Without one, name(types) is a function, and "file.py(12): call" is not. */
static bool is_function(const char *name)
{
	const char *open = strchr(name, '<'), *at = name;

	if (starts(name, "void "))
		return true;
	while (is_word(*at) || *at == ':')
		at++;
	if (*at == '(' && at > name && name[strlen(name) - 1] == ')')
		return true;
	return open && open > name && is_word(open[-1]) && strchr(open, '>') &&
		!strchr(name, '/');
}

/* Words among template arguments that tell nobody what a kernel does. */
static bool is_dull(const char *word, size_t len)
{
	static const char *const dull[] = { "float", "double", "int", "bool",
		"char", "short", "long", "unsigned", "signed", "void", "const",
		"true", "false", "size_t", "int64_t", "uint32_t", "uint8_t",
		"array", "Array", "gpu_kernel_impl", "gpu_kernel_impl_nocast",
		"ReduceOp", "func_wrapper_t", "namespace", "anonymous", "lambda",
		"TensorIteratorBase", "operator", "Params", "enable_if" };

	for (size_t i = 0; i < sizeof dull / sizeof dull[0]; i++)
		if (strlen(dull[i]) == len && !memcmp(dull[i], word, len))
			return true;
	return false;
}

struct word {
	const char *at;
	size_t len;
};

/* The first telling name among the template arguments in front of end. */
static struct word telling_word(const char *at, const char *end)
{
	struct word none = { NULL, 0 };

	while (at < end) {
		const char *from = at;

		while (at < end && is_word(*at))
			at++;
		if (at == from) {
			at++;
			continue;
		}
		if (at + 1 < end && at[0] == ':' && at[1] == ':')
			continue; /* a namespace, or a class around it */
		if (!(*from >= '0' && *from <= '9') && at - from > 2 &&
			!is_dull(from, (size_t)(at - from)))
			return (struct word){ from, (size_t)(at - from) };
	}
	return none;
}

struct function {
	char name[TAUTI_LABEL_BYTES / 2];
	size_t len;
	struct word does;
};

/* Behind the bracket that closes the one at open; the end when none does. */
static const char *skip_brackets(const char *open)
{
	int depth = 0;

	for (const char *at = open; *at; at++) {
		if (*at == '<')
			depth++;
		else if (*at == '>' && at[-1] != '-' && --depth == 0)
			return at + 1;
	}
	return open + strlen(open);
}

/* Noise in front of nearly every kernel of PyTorch. */
static size_t dull_prefix(const char *at)
{
	static const char *const prefixes[] = { "(anonymous namespace)::",
		"<unnamed>::", "at::native::", "at::cuda::detail::" };

	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
		if (starts(at, prefixes[i]))
			return strlen(prefixes[i]);
	return 0;
}

static void read_function(const char *at, struct function *f)
{
	f->len = 0;
	f->does = (struct word){ NULL, 0 };
	while (*at && f->len + 1 < sizeof f->name) {
		size_t dull = dull_prefix(at);

		if (dull) {
			at += dull;
		} else if (*at == '<' && f->len && is_word(f->name[f->len - 1])) {
			const char *end = skip_brackets(at);

			f->does = telling_word(at + 1, end);
			at = end;
		} else if (*at == '(' && f->len) {
			break; /* parameters */
		} else if (*at == ' ') {
			f->len = 0; /* that was the return type */
			f->does.at = NULL;
			at++;
		} else {
			f->name[f->len++] = *at++;
		}
	}
	f->name[f->len] = '\0';
}

/* --- fitting -------------------------------------------------------------------*/

struct label {
	char *text;
	size_t n;
};

static void add(struct label *l, const char *bytes, size_t len)
{
	if (len >= TAUTI_LABEL_BYTES - l->n)
		return;
	memcpy(l->text + l->n, bytes, len);
	l->n += len;
	l->text[l->n] = '\0';
}

/* What is shown for a character: a terminal must not obey C0, DEL, C1, nor
 * what turns the direction of writing. */
static unsigned shown(unsigned code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0) ||
		(code >= 0x202a && code <= 0x202e) ||
		(code >= 0x2066 && code <= 0x2069))
		return '?';
	return code;
}

static void add_shown(struct label *l, const char *at, size_t len,
	unsigned code)
{
	if (code == REPLACEMENT)
		add(l, "\xef\xbf\xbd", 3);
	else if (shown(code) != code)
		add(l, "?", 1);
	else
		add(l, at, len);
}

/* What is in front of column `from`, and what is behind column `to`. */
static void add_without(struct label *l, const char *name, int from, int to)
{
	int column = 0;
	bool cut = false;
	size_t len;

	for (; *name; name += len) {
		unsigned code = tauti_utf8_next(name, &len);
		int next = column + width_of(shown(code));

		if (next <= from || column >= to) {
			add_shown(l, name, len, code);
		} else if (!cut) {
			add(l, ELLIPSIS, 3);
			cut = true;
		}
		column = next;
	}
}

static int columns_shown(const char *name)
{
	int columns = 0;
	size_t len;

	for (; *name; name += len)
		columns += width_of(shown(tauti_utf8_next(name, &len)));
	return columns;
}

/* Keeps more of the end, where names of one family differ. */
static void add_fitting(struct label *l, const char *name, int columns)
{
	int have = columns_shown(name);
	int most = TAUTI_LABEL_BYTES / 8; /* so that four bytes each fit */

	if (columns > most)
		columns = most;
	int head = (columns - 1) * 2 / 5;

	if (have <= columns)
		add_without(l, name, have, have);
	else
		add_without(l, name, head, have - (columns - 1 - head));
}

char *tauti_label(
	const char *name, int columns, char ret_label[TAUTI_LABEL_BYTES])
{
	struct label l = { ret_label, 0 };
	struct function f = { .len = 0 };
	bool says = false;

	ret_label[0] = '\0';
	if (is_function(name))
		read_function(name, &f);
	if (f.len && f.does.at)
		says = columns_shown(f.name) + (int)f.does.len + 2 <= columns;
	add_fitting(&l, f.len ? f.name : name, columns);
	if (says) {
		add(&l, "<", 1);
		add(&l, f.does.at, f.does.len);
		add(&l, ">", 1);
	}
	return ret_label;
}

char *tauti_label_plain(const char *name, char ret_label[TAUTI_LABEL_BYTES])
{
	struct label l = { ret_label, 0 };
	size_t len;

	ret_label[0] = '\0';
	for (; *name; name += len) {
		unsigned code = tauti_utf8_next(name, &len);

		add_shown(&l, name, len, code);
	}
	return ret_label;
}
