// index.cpp - the one place that knows simdjson, and the one file in C++.
#include "trace/json/index.h"

#include <memory>
#include <new>

#include <simdjson.h>

struct tauti_index {
	std::unique_ptr<simdjson::internal::dom_parser_implementation> parser;
};

struct tauti_index *tauti_index_create(size_t capacity)
{
	auto *index = new (std::nothrow) tauti_index;
	if (!index)
		return nullptr;
	if (tauti_index_grow(index, capacity) != TAUT_OK) {
		delete index;
		return nullptr;
	}
	return index;
}

void tauti_index_destroy(struct tauti_index *index)
{
	delete index;
}

taut_status tauti_index_grow(struct tauti_index *index, size_t capacity)
{
	// One more than the text, for the quote that may be added.
	std::unique_ptr<simdjson::internal::dom_parser_implementation> bigger;
	if (simdjson::get_active_implementation()
			->create_dom_parser_implementation(
				capacity + 1, 1, bigger))
		return TAUT_ENOMEM;
	index->parser = std::move(bigger);
	return TAUT_OK;
}

namespace {

// White space stays white space, and what begins no token outside of a string
// (a zero, a bell) still begins none: only the inside of strings changes.
void blank_control_bytes(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (static_cast<unsigned char>(text[i]) >= 0x20)
			continue;
		bool space = text[i] == '\t' || text[i] == '\n' ||
			     text[i] == '\r';
		text[i] = space ? ' ' : '\x7f';
	}
}

void blank_high_bytes(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (static_cast<unsigned char>(text[i]) >= 0x80)
			text[i] = '?';
}

bool ends_in_escape(const char *text, size_t len)
{
	size_t n = 0;
	while (n < len && text[len - 1 - n] == '\\')
		n++;
	return n % 2 == 1;
}

simdjson::error_code stage1(struct tauti_index *index, char *text, size_t len)
{
	index->parser->n_structural_indexes = 0;
	return index->parser->stage1(reinterpret_cast<uint8_t *>(text), len,
		simdjson::stage1_mode::regular);
}

// Closes the string that the end of the text cuts, marks, and puts the text
// back.
simdjson::error_code stage1_closed(
	struct tauti_index *index, char *text, size_t len)
{
	size_t at = ends_in_escape(text, len) ? len - 1 : len;
	char was = text[at];
	text[at] = '"';
	simdjson::error_code code = stage1(index, text, at + 1);
	text[at] = was;
	return code;
}

} // namespace

taut_status tauti_index_run(struct tauti_index *index, char *text, size_t len,
	uint32_t **ret_at, uint32_t *ret_n)
{
	simdjson::error_code code = stage1(index, text, len);
	if (code == simdjson::UNESCAPED_CHARS) {
		blank_control_bytes(text, len);
		code = stage1(index, text, len);
	}
	if (code == simdjson::UNCLOSED_STRING) {
		code = stage1_closed(index, text, len);
		if (code == simdjson::UNESCAPED_CHARS) {
			blank_control_bytes(text, len);
			code = stage1_closed(index, text, len);
		}
	}
	if (code == simdjson::UTF8_ERROR &&
		index->parser->n_structural_indexes == 0) {
		// The plain-C variant of simdjson stops at the first such byte.
		blank_high_bytes(text, len);
		return tauti_index_run(index, text, len, ret_at, ret_n);
	}
	if (code == simdjson::EMPTY)
		index->parser->n_structural_indexes = 0;
	else if (code && code != simdjson::UTF8_ERROR)
		return TAUT_EFORMAT;
	*ret_at = index->parser->structural_indexes.get();
	*ret_n = index->parser->n_structural_indexes;
	return TAUT_OK;
}
