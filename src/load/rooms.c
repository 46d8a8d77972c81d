/* rooms.c - free rooms by size: four sizes between a power of two and the next. */
#include "load/rooms.h"

#include <pthread.h>
#include <stdlib.h>

enum {
	HEAD_BYTES = 64, /* before each room, so that the room is aligned */
	LEAST_BITS = 12, /* the smallest room: a page */
	CLASSES = (63 - LEAST_BITS) * 4,
};

struct head {
	struct head *next;
	void *memory; /* what was had of the system */
	uint32_t class;
};

struct tauti_rooms {
	pthread_mutex_t lock;
	uint64_t most_bytes, bytes; /* of all rooms */
	struct head *free[CLASSES];
};

static uint64_t class_bytes(uint32_t class)
{
	return (UINT64_C(4) + class % 4) << (class / 4 + LEAST_BITS - 2);
}

static uint32_t class_of(uint64_t bytes)
{
	uint32_t class = 0, bits;

	if (bytes > class_bytes(0)) {
		bits = 63 - (uint32_t)__builtin_clzll(bytes - 1);
		class = (bits - LEAST_BITS) * 4;
		while (class_bytes(class) < bytes)
			class++;
	}
	return class;
}

struct tauti_rooms *tauti_rooms_create(uint64_t most_bytes)
{
	struct tauti_rooms *rooms = calloc(1, sizeof *rooms);

	if (!rooms)
		return NULL;
	rooms->most_bytes = most_bytes;
	pthread_mutex_init(&rooms->lock, NULL);
	return rooms;
}

void tauti_rooms_destroy(struct tauti_rooms *rooms)
{
	if (!rooms)
		return;
	for (uint32_t i = 0; i < CLASSES; i++)
		while (rooms->free[i]) {
			struct head *head = rooms->free[i];

			rooms->free[i] = head->next;
			free(head->memory);
		}
	pthread_mutex_destroy(&rooms->lock);
	free(rooms);
}

static struct head *make(uint32_t class)
{
	char *memory = malloc(class_bytes(class) + 2 * HEAD_BYTES);
	struct head *head;

	if (!memory)
		return NULL;
	head = (struct head *)(memory + HEAD_BYTES - (uintptr_t)memory % HEAD_BYTES);
	head->memory = memory;
	head->class = class;
	return head;
}

void *tauti_rooms_take(struct tauti_rooms *rooms, uint64_t bytes)
{
	uint32_t class;
	struct head *head;

	if (bytes > UINT64_C(1) << 48)
		return NULL;
	class = class_of(bytes);
	pthread_mutex_lock(&rooms->lock);
	head = rooms->free[class];
	if (head)
		rooms->free[class] = head->next;
	pthread_mutex_unlock(&rooms->lock);
	if (head)
		return (char *)head + HEAD_BYTES;
	head = make(class);
	if (!head)
		return NULL;
	pthread_mutex_lock(&rooms->lock);
	rooms->bytes += class_bytes(class);
	pthread_mutex_unlock(&rooms->lock);
	return (char *)head + HEAD_BYTES;
}

void tauti_rooms_give(struct tauti_rooms *rooms, void *room)
{
	struct head *head;
	void *memory = NULL;

	if (!room)
		return;
	head = (struct head *)((char *)room - HEAD_BYTES);
	pthread_mutex_lock(&rooms->lock);
	if (rooms->bytes > rooms->most_bytes) {
		rooms->bytes -= class_bytes(head->class);
		memory = head->memory;
	} else {
		head->next = rooms->free[head->class];
		rooms->free[head->class] = head;
	}
	pthread_mutex_unlock(&rooms->lock);
	free(memory);
}
