/* fields.c - see fields.h. */
#include "report/fields.h"

#include "report/number.h"

void tauti_field_row(struct tauti_put *put, uint32_t i)
{
	tauti_put_text(put, i ? ",\n  {" : "\n  {");
}

void tauti_field_row_text(struct tauti_put *put, uint32_t i, const char *key,
	const char *value)
{
	tauti_field_row(put, i);
	tauti_put_key(put, key);
	tauti_put_string(put, value);
}

void tauti_field_key(struct tauti_put *put, const char *key)
{
	tauti_put_char(put, ',');
	tauti_put_key(put, key);
}

void tauti_field_section(
	struct tauti_put *put, const char *key, const char *open)
{
	tauti_put_text(put, ",\n");
	tauti_put_key(put, key);
	tauti_put_text(put, open);
}

void tauti_field_ms(struct tauti_put *put, const char *key, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_field_key(put, key);
	tauti_put_text(put, tauti_number_ms(ns, 6, text));
}

void tauti_field_real(struct tauti_put *put, const char *key, double value)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, 6, text);

	tauti_field_key(put, key);
	tauti_put_text(put, number ? number : "null");
}

void tauti_field_integer(struct tauti_put *put, const char *key, int64_t value)
{
	tauti_field_key(put, key);
	tauti_put_int(put, value);
}

void tauti_field_known(struct tauti_put *put, const char *key, int64_t value)
{
	tauti_field_key(put, key);
	if (value < 0)
		tauti_put_text(put, "null");
	else
		tauti_put_int(put, value);
}

void tauti_field_text(
	struct tauti_put *put, const char *key, const char *value)
{
	tauti_field_key(put, key);
	tauti_put_string(put, value);
}

void tauti_field_texts(struct tauti_put *put, const char *key,
	const char *const *values, size_t n)
{
	tauti_field_key(put, key);
	tauti_put_char(put, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_string(put, values[i]);
	}
	tauti_put_char(put, ']');
}
