/* flight.c - see flight.h. */
#include "sched/flight.h"

#include <stdlib.h>

static uint64_t first_word(const struct tauti_flight *flight)
{
	return flight->floor / 64;
}

static void move_to(const struct tauti_flight *old, struct tauti_flight *new)
{
	uint64_t end_word = tauti_bits_words(old->end);

	for (uint64_t n = first_word(old) * 64; n < old->end; n++)
		*tauti_flight_row(new, n) = *tauti_flight_row(old, n);
	for (uint64_t w = first_word(old); w < end_word; w++) {
		*tauti_flight_word(new, new->finished, w) =
			*tauti_flight_word(old, old->finished, w);
		*tauti_flight_word(new, new->everywhere, w) =
			*tauti_flight_word(old, old->everywhere, w);
	}
}

static bool grow(struct tauti_flight *flight)
{
	struct tauti_flight new = *flight;
	size_t words;

	new.capacity = flight->capacity ? 2 * flight->capacity : 64;
	words = (size_t)(new.capacity / 64);
	new.rows = calloc(words,
		64 * sizeof *new.rows + 2 * sizeof *new.finished);
	if (!new.rows)
		return false;
	new.finished = (uint64_t *)(void *)(new.rows + new.capacity);
	new.everywhere = new.finished + words;
	move_to(flight, &new);
	free(flight->rows);
	*flight = new;
	return true;
}

bool tauti_flight_add(struct tauti_flight *flight,
	const struct taut_sched_piece *piece, bool joined)
{
	uint64_t number = flight->end;

	if (number - first_word(flight) * 64 == flight->capacity &&
		!grow(flight))
		return false;
	*tauti_flight_row(flight, number) =
		(struct tauti_committed){ *piece, joined };
	tauti_flight_row(flight, number)->piece.number = number;
	*tauti_flight_word(flight, flight->finished, number / 64) &=
		~tauti_bit(number);
	*tauti_flight_word(flight, flight->everywhere, number / 64) &=
		~tauti_bit(number);
	flight->end++;
	return true;
}

void tauti_flight_finish(struct tauti_flight *flight, uint64_t number)
{
	*tauti_flight_word(flight, flight->finished, number / 64) |=
		tauti_bit(number);
}

void tauti_flight_release(struct tauti_flight *flight, uint64_t number)
{
	*tauti_flight_word(flight, flight->everywhere, number / 64) |=
		tauti_bit(number);
	while (flight->floor < flight->end &&
		tauti_flight_has(flight, flight->everywhere, flight->floor))
		flight->floor++;
}

size_t tauti_flight_words(const struct tauti_flight *flight)
{
	if (flight->floor == flight->end)
		return 0;
	return (size_t)((flight->end - 1) / 64 - first_word(flight) + 1);
}

void tauti_flight_copy(const struct tauti_flight *flight, uint64_t *words)
{
	size_t n = tauti_flight_words(flight);

	for (size_t i = 0; i < n; i++)
		words[i] = *tauti_flight_word(
			flight, flight->finished, first_word(flight) + i);
	if (n && flight->end % 64)
		words[n - 1] &= tauti_bit(flight->end) - 1;
}

void tauti_flight_fini(struct tauti_flight *flight)
{
	free(flight->rows);
	*flight = (struct tauti_flight){ .rows = NULL };
}
