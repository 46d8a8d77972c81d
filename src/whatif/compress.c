/* compress.c - gradients that are made smaller before they are summed.
 *
 * fp16, bf16: cast, all-reduce, cast back (PyTorch's communication hooks).
 * mxint8: the same, of blocks of 32 numbers in 33 bytes (TAUT_MXINT8), which
 *   Taut's exchange alone adds up.
 * int8, topk: the ranks gather each other's parts, for such parts do not add
 *   up; of top-k values and places (S. Shi et al. 2019, Y. Lin et al., DGC,
 *   2018), each of 4 bytes.
 * powersgd: a matrix M of rows and columns n x m is summed as P = M Q and
 *   Q = M^T P of `rank` columns, one all-reduce each (T. Vogels et al. 2019).
 *
 * What numbers are before, a collective's number_bytes tell; 4 where they do not.
 * Taut's exchange narrows fp32 alone.
 *
 * Ring laws: an all-reduce of S moves 2 (p - 1)/p S out of each rank, an
 * all-gather of p parts of s moves (p - 1) s; so gathering costs what an
 * all-reduce of p s / 2 does. */
#include <math.h>

#include <taut/coll.h>

#include "whatif/attach.h"
#include "whatif/exchanged.h"

enum { HOW, RATIO, RANK, CAST, SELECT, CORE, BY };
enum { HOOK, TAUT };
enum { FP16, BF16, MXINT8, INT8, TOPK, POWERSGD };

struct cost { /* of a gradient byte, in passes over it at the cast's rate */
	double before, behind;
	double hook_ns;        /* of a call into the framework's hook */
	double core_low, core, core_high; /* adding up, by byte on the wire */
};

/* Passes measured with PyTorch 2.13 on one core of an AMD EPYC: a pass is a copy
 * of fp32. Adding up fp16 in Gloo took 1.9 times the CPU time a byte of fp32
 * over loopback, bf16 1.4 times; in real jobs over shaped links (bench/lab)
 * transfers of halves slow computation by little more than their bytes say. */
static const struct cost costs[] = {
	[FP16] = { 1.3, 0.75, 150e3, 0.8, 1.4, 1.9 },
	[BF16] = { 1.4, 0.75, 150e3, 0.8, 1.2, 1.5 },
	[INT8] = { 3, 1.5, 150e3, 0.3, 0.6, 1 },
	[TOPK] = { 2, 1, 300e3, 0.3, 0.6, 1 },
	[POWERSGD] = { 3, 2, 500e3, 1, 1, 1 },
};
/* Taut's exchange: narrowed and widened at 9.4 and 9.6 GB/s of fp32 where a copy
 * moved 7.6, and added up with the same kernels as fp32 (bench/reduce_rate.c). What is
 * widened behind a transfer takes its rank's core, too. A constant stands for that: at
 * 4 Gbit/s of fp32 halves take 1 ns a byte of fp32, widening a tenth of it, which is
 * 0.3 of a drag of 0.35. */
static const struct cost by_taut[] = {
	[FP16] = { 0.8, 0.8, 0, 0.8, 1.3, 1.8 },
	[BF16] = { 0.8, 0.8, 0, 0.8, 1.3, 1.8 },
	/* 11.7 and 15.1 GB/s. In jobs on one core a host (bench/plan_compare.py) a
	 * byte on the wire costs the core what one of fp32 does: it is added up
	 * slower, and of most of that cost the kernel's copies are the cause. */
	[MXINT8] = { 0.7, 0.55, 0, 0.7, 1.1, 1.6 },
};

struct compress {
	struct tauti_whatif *w;
	struct tauti_ddp *ddp;
	struct taut_error *err;
	uint32_t how;
	const struct cost *cost;
	double ratio, rank;
	double rate;   /* bytes a nanosecond of a pass */
	double select; /* the same of a selection; 0: none */
	double core;
	bool by_taut;
	double bytes, kept; /* of gradients; of these in no fewer bits than before */
	uint8_t *seen; /* by collective: its way was set */
};

enum { FP32_BYTES = 4, HALF_BYTES = 2 };

static double bytes_of_number(const struct taut_collective *c)
{
	return c->number_bytes ? c->number_bytes : FP32_BYTES;
}

static taut_status read_rate(const struct tauti_change *c, size_t i,
	double *ret_rate, struct taut_error *err)
{
	double gbs;
	taut_status status = tauti_param_number(c, i, 1e-3, 1e6, &gbs, err);

	if (!status)
		*ret_rate = gbs;
	return status;
}

static taut_status choose_rates(struct compress *k,
	const struct tauti_change *c)
{
	bool device = k->w->job->has_device;
	double typical = device ? 500 : 8;
	taut_status status = TAUT_OK;

	k->rate = k->ddp->copy_rate > 0 && !device ? k->ddp->copy_rate :
		typical;
	if (tauti_param_given(c, CAST))
		status = read_rate(c, CAST, &k->rate, k->err);
	else
		k->rate = tauti_range(
			k->w, 2 * k->rate, k->rate, k->rate / 2);
	if (!status && k->how == TOPK) {
		if (tauti_param_given(c, SELECT))
			status = read_rate(c, SELECT, &k->select, k->err);
		else
			k->select = tauti_range(k->w, device ? 60 : 0.4,
				device ? 20 : 0.2, device ? 5 : 0.1);
	}
	if (!status && !tauti_param_given(c, CAST))
		status = tauti_note(k->w, k->err, "compress: a pass over a "
			"gradient is taken to move %.3g GB/s, %s", k->rate,
			k->ddp->copy_rate > 0 && !device ? "as the recorded "
			"copies into buckets did" : "a typical value: nothing "
			"in the recording tells");
	return status;
}

static taut_status read(struct compress *k, const struct tauti_change *c)
{
	const struct cost *cost;
	uint32_t by;
	double factor;
	taut_status status = tauti_param_word(c, HOW, &k->how, k->err);

	if (!status)
		status = tauti_param_word(c, BY, &by, k->err);
	if (!status && by == TAUT && k->how > MXINT8)
		status = tauti_param_wrong(c, BY, "hook: Taut narrows to fp16, "
			"bf16 and mxint8", k->err);
	if (!status && by == HOOK && k->how == MXINT8)
		status = tauti_param_wrong(c, BY, "taut: frameworks have no "
			"hook for mxint8", k->err);
	if (status)
		return status;
	k->by_taut = by == TAUT;
	k->cost = cost = k->by_taut ? &by_taut[k->how] : &costs[k->how];
	k->core = tauti_range(
		k->w, cost->core_low, cost->core, cost->core_high);
	status = tauti_param_number(c, RATIO, 1e-6, 1, &k->ratio, k->err);
	if (!status)
		status = tauti_param_number(
			c, RANK, 1, 4096, &k->rank, k->err);
	if (!status && tauti_param_given(c, CORE)) {
		status = tauti_param_number(c, CORE, 0, 100, &factor, k->err);
		k->core = factor;
	}
	return status ? status : choose_rates(k, c);
}

/* Numbers of P and Q together, of a matrix of so many: it is taken for four
 * times as wide as high; what is too small to gain stays as it is. */
static double factors(const struct compress *k, double numbers)
{
	double aspect = tauti_range(k->w, 1, 4, 16);
	double sides = sqrt(numbers) * (sqrt(aspect) + 1 / sqrt(aspect));

	return k->rank * sides < numbers / 2 ? k->rank * sides : numbers;
}

/* Of a gradient the last block is filled up; what other changes have put in its place
 * is not told. */
static double in_blocks(const struct compress *k, const struct tauti_ddp_step *s,
	const struct tauti_bucket *b)
{
	int64_t all = 0;
	uint64_t sent = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		int64_t bytes = k->ddp->gradients.data[
			s->first_gradient + b->first + i].bytes;

		all += bytes;
		sent += taut_numbers_bytes(
			TAUT_MXINT8, ((uint64_t)bytes + 3) / 4);
	}
	if (all > 0 && all == b->bytes)
		return (double)sent / (double)all;
	return (double)taut_numbers_bytes(TAUT_MXINT8, 32) / (32 * 4);
}

/* Numbers of this one are narrow already, or of a type that Taut leaves as it is. */
static bool stays(const struct compress *k, const struct taut_collective *c)
{
	double number = bytes_of_number(c);

	if (k->how > MXINT8)
		return false;
	return k->by_taut ? number != FP32_BYTES : number <= HALF_BYTES;
}

/* Bytes on the wire by byte of the bucket, as an all-reduce. */
static double wire_of(const struct compress *k,
	const struct tauti_ddp_step *s, const struct tauti_bucket *b,
	const struct taut_collective *c)
{
	double ranks = c->group_size > 0 ? (uint32_t)c->group_size : c->n_members;
	double number = bytes_of_number(c), sent = 0;

	switch (k->how) {
	case FP16:
	case BF16:
		return HALF_BYTES / number;
	case MXINT8:
		return in_blocks(k, s, b);
	case INT8:
		return ranks / number / 2;
	case TOPK: /* a value and its place */
		return ranks * k->ratio * (1 + 4 / number) / 2;
	default:
		break;
	}
	for (uint32_t i = 0; i < b->n; i++)
		sent += number * factors(k, (double)k->ddp->gradients.data[
			s->first_gradient + b->first + i].bytes / number);
	return b->bytes > 0 && sent > 0 ? sent / (double)b->bytes : 1;
}

static taut_status set_wire(struct compress *k,
	const struct tauti_ddp_step *s, const struct tauti_bucket *b,
	const struct taut_collective *c)
{
	struct tauti_way way = tauti_way_of(k->w, b->collective);

	if (k->seen[b->collective])
		return TAUT_OK;
	k->seen[b->collective] = 1;
	way.wire *= wire_of(k, s, b, c);
	way.core *= k->core;
	return tauti_set_way(k->w, b->collective, &way, k->err);
}

/* The second of PowerSGD's all-reduces waits for the first. */
static double round_ns(const struct compress *k, const struct tauti_bucket *b)
{
	if (k->how != POWERSGD || b->like == TAUT_NONE)
		return 0;
	return (double)k->w->costs->transfers[b->like].latency_ns;
}

static taut_status change_bucket(struct compress *k,
	const struct tauti_ddp_step *s, const struct tauti_bucket *b)
{
	static const char *const names[][2] = {
		[FP16] = { "cast to fp16", "cast from fp16" },
		[BF16] = { "cast to bf16", "cast from bf16" },
		[MXINT8] = { "cast to mxint8", "cast from mxint8" },
		[INT8] = { "quantize", "add up and dequantize" },
		[TOPK] = { "select top-k", "add up top-k" },
		[POWERSGD] = { "P = M Q", "Q = M^T P, M = P Q^T" },
	};
	const struct cost *cost = k->cost;
	double bytes = (double)b->bytes, before, behind;
	double hook = k->w->job->has_device ? 0 : cost->hook_ns;
	struct taut_collective c;
	taut_status status;

	if (!taut_edit_collective(k->w->edit, b->collective, &c))
		return TAUT_OK;
	k->bytes += bytes;
	if (stays(k, &c)) {
		k->kept += bytes;
		return TAUT_OK;
	}
	status = set_wire(k, s, b, &c);
	before = bytes * cost->before / k->rate + hook;
	if (k->select > 0)
		before += bytes / k->select;
	behind = bytes * cost->behind / k->rate + hook / 2 + round_ns(k, b);
	if (k->ddp->exchanged) { /* its thread does both, and not the job's */
		behind += before;
		before = 0;
	}
	if (!status)
		status = tauti_work_before(k->w, k->ddp, s, b,
			names[k->how][0], (int64_t)before, k->err);
	if (!status)
		status = tauti_work_behind(k->w, b, names[k->how][1],
			(int64_t)behind, k->err);
	return status;
}

static taut_status say(struct compress *k)
{
	if (k->kept > 0)
		return tauti_note(k->w, k->err, "compress: %.3g %% of the "
			"gradients' bytes stay as they are: %s",
			100 * k->kept / k->bytes, k->by_taut ?
			"Taut narrows those of fp32" :
			"they are of 16 bits already");
	if (k->how == INT8 || k->how == TOPK)
		return tauti_note(k->w, k->err, "compress: such parts do not "
			"add up, so each rank gets those of all others; with "
			"more ranks that grows");
	if (k->how == POWERSGD)
		return tauti_note(k->w, k->err, "compress: matrices are taken "
			"to be four times as wide as high, where shapes are "
			"not known");
	return TAUT_OK;
}

static taut_status change_all(struct compress *k)
{
	taut_status status = tauti_ddp_wait(k->w, k->ddp, k->err);

	for (size_t i = 0; !status && i < k->ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &k->ddp->steps.data[i];

		for (uint32_t b = 0; !status && b < s->n_buckets; b++)
			status = change_bucket(k, s, &k->ddp->buckets.data[
				s->first_bucket + b]);
	}
	return status ? status : say(k);
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	struct compress k = { .w = w, .err = err };
	taut_status status = tauti_ddp_create(w, 0, NULL, 0, &k.ddp, err);

	if (status)
		return status;
	status = tauti_exchanged_part(w, &k.ddp, err);
	if (status) {
		tauti_ddp_destroy(k.ddp);
		return status;
	}
	k.seen = TAUT_ARENA_ARRAY(w->arena, uint8_t,
		taut_edit_collectives(w->edit) + 1);
	if (!k.seen)
		status = taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for gradients");
	else
		status = tauti_ddp_need_buckets(w, k.ddp, "compress", err);
	if (!status)
		status = read(&k, c);
	if (!status)
		status = change_all(&k);
	tauti_ddp_destroy(k.ddp);
	return status;
}

static const struct taut_parameter parameters[] = {
	[HOW] = { "", "fp16|bf16|mxint8|int8|topk|powersgd", NULL,
		"what gradients are made before they are summed" },
	[RATIO] = { "ratio", "SHARE", "0.01", "of topk: numbers that are kept" },
	[RANK] = { "rank", "N", "1", "of powersgd: columns of the factors" },
	[CAST] = { "cast", "GB/S", "", "of gradients, one pass over them; "
		"without it, what the recorded copies into buckets reached" },
	[SELECT] = { "select", "GB/S", "", "of gradients, the selection of topk" },
	[CORE] = { "core", "FACTOR", "", "what adding up costs a core for a "
		"byte on the wire, by that of fp32" },
	[BY] = { "by", "hook|taut", "hook", "who narrows: a hook of the "
		"framework, or Taut's exchange (fp16, bf16, mxint8)" },
};

const struct tauti_transformation tauti_whatif_compress = {
	.info = {
		.name = "compress",
		.group = "network",
		.summary = "gradients as fp16, bf16, mxint8 or int8, the largest "
			"alone (top-k, DGC), or as low-rank factors (PowerSGD)",
		.assumption = "the framework casts a whole bucket before it is "
			"handed over and behind its transfer, as PyTorch's "
			"hooks do; what training then converges to is not told",
		.source = "PyTorch's communication hooks; Lin et al., DGC, "
			"2018; Vogels et al., PowerSGD, 2019",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof parameters[0],
	},
	.apply = apply,
};
