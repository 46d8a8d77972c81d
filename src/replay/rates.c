/* rates.c - max-min fair rates of the flows that are moving.
 *
 * Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), weighted:
 * the rates of all flows rise together; when the first resource is full, the
 * flows on it stay where they are, and so on. Only flows that are connected
 * with a change by resources in common are looked at; of these, every sum is
 * taken in the order of the flows, so that a rate depends on which flows move
 * and not on what happened before. */
#include <stdlib.h>

#include "sharing.h"

static void touch(struct share *s, uint32_t r)
{
	if (s->resources[r].dirty)
		return;
	s->resources[r].dirty = true;
	s->dirty[s->n_dirty++] = r;
}

/* A flow that uses nothing moves at 1; measuring, it ends when it did. */
static void move_alone(struct share *s, uint32_t f)
{
	struct flow *flow = &s->flows[f];
	flow->rate = 1;
	due_set(&s->due, f, s->measure ? s->measure->flow_end_ns[f]
		: tauti_after(s->clock_ns, flow->left));
}

void tauti_flow_join(struct share *s, uint32_t f)
{
	const struct taut_flow *is = &s->is->flows[f];
	s->flows[f].at_ns = s->clock_ns;
	s->flows[f].rate = 0;
	if (!is->n_uses)
		move_alone(s, f);
	for (uint32_t i = 0; i < is->n_uses; i++) {
		uint32_t use = is->first_use + i;
		uint32_t r = s->is->uses[use].resource;
		uint32_t first = s->resources[r].first;
		s->links[use] = (struct link){ first, TAUT_NONE };
		if (first != TAUT_NONE)
			s->links[first].before = use;
		s->resources[r].first = use;
		touch(s, r);
	}
}

void tauti_flow_leave(struct share *s, uint32_t f)
{
	const struct taut_flow *is = &s->is->flows[f];
	for (uint32_t i = 0; i < is->n_uses; i++) {
		uint32_t use = is->first_use + i;
		uint32_t r = s->is->uses[use].resource;
		struct link link = s->links[use];
		if (link.next != TAUT_NONE)
			s->links[link.next].before = link.before;
		if (link.before != TAUT_NONE)
			s->links[link.before].next = link.next;
		else
			s->resources[r].first = link.next;
		touch(s, r);
	}
}

void tauti_flow_count(struct share *s, struct flow *flow)
{
	double moved = flow->rate * (double)(s->clock_ns - flow->at_ns);
	flow->left -= moved;
	flow->at_ns = s->clock_ns;
}

/* --- what hangs together ---------------------------------------------------------*/

static void find_resource(struct share *s, uint32_t r)
{
	if (s->resources[r].seen == s->search)
		return;
	s->resources[r].seen = s->search;
	s->found_resources[s->n_found_resources++] = r;
}

static void find_flow(struct share *s, uint32_t f)
{
	const struct taut_flow *is = &s->is->flows[f];
	if (s->flows[f].seen == s->search)
		return;
	s->flows[f].seen = s->search;
	s->found_flows[s->n_found_flows++] = f;
	for (uint32_t i = 0; i < is->n_uses; i++)
		find_resource(s, s->is->uses[is->first_use + i].resource);
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void sort_flows(uint32_t *flows, uint32_t n)
{
	if (n > 32) {
		qsort(flows, n, sizeof *flows, by_id);
		return;
	}
	for (uint32_t i = 1; i < n; i++) {
		uint32_t f = flows[i], at = i;
		for (; at && flows[at - 1] > f; at--)
			flows[at] = flows[at - 1];
		flows[at] = f;
	}
}

/* All flows that share with r, directly or through others, and what they
 * use. */
static void find_component(struct share *s, uint32_t r)
{
	s->n_found_flows = s->n_found_resources = 0;
	find_resource(s, r);
	for (uint32_t i = 0; i < s->n_found_resources; i++) {
		uint32_t use = s->resources[s->found_resources[i]].first;
		for (; use != TAUT_NONE; use = s->links[use].next)
			find_flow(s, s->flow_of_use[use]);
	}
	sort_flows(s->found_flows, s->n_found_flows);
}

/* --- filling ------------------------------------------------------------------------*/

static void empty_resources(struct share *s)
{
	for (uint32_t i = 0; i < s->n_found_resources; i++) {
		uint32_t r = s->found_resources[i];
		s->resources[r].free = s->is->capacity[r];
		s->resources[r].load = 0;
	}
}

/* What the flows that still rise put on each resource. */
static void weigh(struct share *s, uint32_t n_flows, uint32_t n_resources)
{
	for (uint32_t i = 0; i < n_resources; i++) {
		struct resource *resource =
			&s->resources[s->found_resources[i]];
		resource->open_weight = 0;
		resource->full = false;
	}
	for (uint32_t i = 0; i < n_flows; i++) {
		const struct taut_flow *is =
			&s->is->flows[s->found_flows[i]];
		for (uint32_t j = 0; j < is->n_uses; j++) {
			const struct taut_flow_use *use =
				&s->is->uses[is->first_use + j];
			s->resources[use->resource].open_weight += use->weight;
		}
	}
}

/* The level at which the next resource is full. It never falls, which sums of
 * fractions could make it do. */
static double next_level(struct share *s, uint32_t *n_open, double level)
{
	double next = INFINITY;
	uint32_t n = 0;
	for (uint32_t i = 0; i < *n_open; i++) {
		uint32_t r = s->found_resources[i];
		const struct resource *resource = &s->resources[r];
		if (!(resource->open_weight > 0))
			continue;
		s->found_resources[i] = s->found_resources[n];
		s->found_resources[n++] = r;
		double at = resource->free / resource->open_weight;
		next = at < next ? at : next;
	}
	*n_open = n;
	next = next > level ? next : level;
	for (uint32_t i = 0; i < n; i++) {
		struct resource *resource =
			&s->resources[s->found_resources[i]];
		resource->full =
			resource->free / resource->open_weight <= next;
	}
	return next;
}

static bool is_stopped(const struct share *s, const struct taut_flow *is)
{
	for (uint32_t i = 0; i < is->n_uses; i++) {
		uint32_t r = s->is->uses[is->first_use + i].resource;
		if (s->resources[r].full)
			return true;
	}
	return false;
}

static void give(struct share *s, const struct taut_flow *is, double level)
{
	for (uint32_t i = 0; i < is->n_uses; i++) {
		const struct taut_flow_use *use =
			&s->is->uses[is->first_use + i];
		struct resource *resource = &s->resources[use->resource];
		double takes = level * use->weight;
		resource->free -= takes;
	}
}

/* found_flows ends up in the order in which they stopped: it is sorted anew
 * for what follows. */
static void fill(struct share *s)
{
	uint32_t *open = s->found_flows, n = s->n_found_flows;
	uint32_t n_resources = s->n_found_resources;
	double level = 0;
	empty_resources(s);
	while (n) {
		uint32_t kept = 0;
		weigh(s, n, n_resources);
		level = next_level(s, &n_resources, level);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t f = open[i];
			const struct taut_flow *is = &s->is->flows[f];
			if (!is_stopped(s, is)) {
				open[i] = open[kept];
				open[kept++] = f;
				continue;
			}
			s->flows[f].next_rate = level;
			give(s, is, level);
		}
		n = kept;
	}
	sort_flows(s->found_flows, s->n_found_flows);
}

/* --- taking effect ------------------------------------------------------------------*/

static void change_rate(struct share *s, uint32_t f)
{
	struct flow *flow = &s->flows[f];
	int64_t at_ns;
	tauti_flow_count(s, flow);
	flow->rate = flow->next_rate;
	if (s->measure)
		at_ns = s->measure->flow_end_ns[f];
	else
		at_ns = tauti_after(s->clock_ns,
			flow->left > 0 ? flow->left / flow->rate : 0);
	due_set(&s->due, f, at_ns > s->clock_ns ? at_ns : s->clock_ns);
}

static void apply(struct share *s)
{
	for (uint32_t i = 0; i < s->n_found_flows; i++) {
		uint32_t f = s->found_flows[i];
		const struct taut_flow *is = &s->is->flows[f];
		if (s->flows[f].rate != s->flows[f].next_rate)
			change_rate(s, f);
		for (uint32_t j = 0; j < is->n_uses; j++) {
			const struct taut_flow_use *use =
				&s->is->uses[is->first_use + j];
			double takes = s->flows[f].rate * use->weight;
			s->resources[use->resource].load += takes;
		}
	}
	for (uint32_t i = 0; i < s->n_found_resources; i++) {
		uint32_t r = s->found_resources[i];
		struct resource *resource = &s->resources[r];
		if (resource->core == TAUT_NONE)
			continue;
		double load = resource->load / s->is->capacity[r];
		double speed = 1 - load;
		tauti_core_speed(s, resource->core, speed > s->is->least_speed
			? speed : s->is->least_speed);
	}
}

void tauti_rates_settle(struct share *s)
{
	uint64_t first = s->search + 1;
	for (uint32_t i = 0; i < s->n_dirty; i++) {
		uint32_t r = s->dirty[i];
		s->resources[r].dirty = false;
		if (s->resources[r].seen >= first)
			continue;
		s->search++;
		find_component(s, r);
		fill(s);
		apply(s);
	}
	s->n_dirty = 0;
}
