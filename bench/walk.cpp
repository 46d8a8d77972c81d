// SPDX-License-Identifier: Apache-2.0
// walk.cpp - what reading a trace costs when nothing is kept of it.
#include "walk.h"

#include <simdjson.h>

using namespace simdjson;

namespace {

struct walker {
	bool raw;
	uint64_t values = 0;
	uint64_t sink = 0; // so that nothing is optimised away

	void scalar(ondemand::value value)
	{
		if (raw) {
			sink += value.raw_json_token().size();
			return;
		}
		switch (ondemand::json_type(value.type())) {
		case ondemand::json_type::string:
			sink += std::string_view(value.get_string()).size();
			break;
		case ondemand::json_type::number:
			sink += ondemand::number(value.get_number()).is_int64();
			break;
		case ondemand::json_type::boolean:
			sink += bool(value.get_bool());
			break;
		default:
			sink += value.is_null();
			break;
		}
	}

	void visit(ondemand::value value)
	{
		values++;
		switch (ondemand::json_type(value.type())) {
		case ondemand::json_type::object:
			for (auto field : value.get_object()) {
				sink += uint8_t(field.key().value().raw()[0]);
				visit(field.value());
			}
			break;
		case ondemand::json_type::array:
			for (auto element : value.get_array())
				visit(element.value());
			break;
		default:
			scalar(value);
			break;
		}
	}
};

} // namespace

extern "C" uint64_t bench_walk(const char *text, size_t len, int raw)
{
	walker walk{ raw != 0 };
	try {
		ondemand::parser parser;
		ondemand::document doc = parser.iterate(
			padded_string_view(text, len, len + BENCH_WALK_PAD));
		walk.visit(ondemand::value(doc));
	} catch (const simdjson_error &) {
		return 0;
	}
	return walk.values + (walk.sink == 1);
}
