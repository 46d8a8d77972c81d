/* ddp_job.h - a data-parallel job of PyTorch over one Gloo thread, as its ranks
 * would have recorded it, from a few numbers: for tests only. All ranks do the
 * same at the same time; each stands on a host of its own unless all are on one.
 *
 *     main  | data | forward | c0 P0 | c1 P1 [launch] ... | wait copy ... | opt
 *     gloo                              | bucket 0 ------- | bucket 1 ----
 *
 * c: computing the gradient before it, P: putting it into place. */
#ifndef TAUT_WHATIF_DDP_JOB_H
#define TAUT_WHATIF_DDP_JOB_H

#include <stdlib.h>

#include <taut/graph.h>

#include "tests/support/write_trace.h"

enum { DDP_MAX_GRADIENTS = 64, DDP_MAIN = 10, DDP_GLOO = 11 };

struct ddp_job {
	int ranks, steps;
	int n_gradients;
	long floats;          /* of each gradient: so many numbers */
	const char *type;     /* of a number, as profilers say it; NULL: float */
	const char *hook;     /* what a hook of the job's makes of it to be summed;
	                         NULL: nothing */
	double forward_us;
	double compute_us;    /* before each gradient */
	const double *slower; /* by step: factor of compute_us; NULL: 1 */
	double copy_us;       /* into the bucket, of each gradient; 0: none is told */
	double optimizer_us;
	long bucket_floats;   /* 0: nothing is summed */
	double us_by_float;   /* of an all-reduce */
	int no_shapes;
	int one_host;         /* 1: all ranks stand on it */
	int lacks;            /* so many steps of the last rank, the first ones, lack
	                         their last gradient */
	int untold;           /* 1: nothing says what puts a gradient into place */
	int added;            /* with layers: passes of a step before the last one, whose
	                         gradients are added up, and summed with its own */
	int layers;           /* 1: the forward pass is one operator for each
	                         gradient, with autograd's numbers */
	int looks_up;         /* with layers: so many of the first are lookups of an
	                         embedding's rows, whose gradients are the last */
	const char *update;   /* operators of the update; NULL: none is told */
	int wrapped;          /* 1: the forward pass is in a range of the wrapper's, and
	                         nothing is summed but gradients */
	int whole;            /* 1: the forward pass is the call of one module */
	long block_bytes;     /* with layers: each is a module, blocks.0 and so on,
	                         and makes a block of so many bytes and one of a
	                         tenth that it hands on, which its backward
	                         pass frees; 0: memory is not told */
};

struct ddp_writer {
	const struct ddp_job *job;
	struct wt *w;
	double at;        /* of the main thread */
	double gloo_free; /* when the last transfer was done */
	double done[DDP_MAX_GRADIENTS]; /* by gradient: its bucket's transfer */
	int bucket_of[DDP_MAX_GRADIENTS], n_buckets;
	int number;       /* autograd's, of the step's first operator */
	int lacks;        /* the step: its last gradient is not told */
};

static inline const char *ddp_type(const struct ddp_writer *d)
{
	return d->job->type ? d->job->type : "float";
}

/* backward: autograd's number, of what computes a gradient; below 0: of an
 * operator whose gradient will be wanted. */
static inline void ddp_op(struct ddp_writer *d, const char *name, double dur,
	long floats, int backward)
{
	char args[160] = "";

	if (floats && !d->job->no_shapes)
		snprintf(args, sizeof args, "\"Input type\":[\"%s\"],"
			"\"Input Dims\":[[%ld]]", ddp_type(d), floats);
	if (backward)
		snprintf(args, sizeof args, "\"Sequence number\":%d,"
			"\"Fwd thread id\":%d", abs(backward), backward > 0);
	wt_event(d->w, "cpu_op", name, 1, DDP_MAIN, d->at, dur, args);
}

static inline void ddp_memory(
	struct ddp_writer *d, double at, long bytes, int address)
{
	fprintf(d->w->out, ",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\","
		"\"s\":\"t\",\"name\":\"[memory]\",\"pid\":1,\"tid\":%d,"
		"\"ts\":%.3f,\"args\":{\"Total Allocated\":1000000,"
		"\"Addr\":%d,\"Bytes\":%ld,\"Device Id\":-1,"
		"\"Device Type\":0}}", DDP_MAIN, at, address, bytes);
}

/* Layer i, from d->at on. */
static inline void ddp_layer(struct ddp_writer *d, int i, double dur)
{
	char module[40];

	snprintf(module, sizeof module, "nn.Module: blocks.%d", i);
	if (d->job->block_bytes)
		wt_event(d->w, "user_annotation", module, 1, DDP_MAIN, d->at,
			dur, "");
	ddp_op(d, "aten::conv2d", dur, 0,
		d->job->layers ? -(d->number + i + 1) : 0);
	if (!d->job->block_bytes)
		return;
	ddp_memory(d, d->at + dur / 2, d->job->block_bytes, 1000 + i);
	ddp_memory(d, d->at + dur * 0.9, d->job->block_bytes / 10, 2000 + i);
}

/* Of layer i, and its backward pass frees both. */
static inline void ddp_layer_back(struct ddp_writer *d, int i, double dur)
{
	const char *name = i < d->job->looks_up ? "autograd::engine::"
		"evaluate_function: EmbeddingBackward0" : d->job->block_bytes ?
		"autograd::engine::evaluate_function: ConvolutionBackward0" :
		"ConvolutionBackward0";

	ddp_op(d, name, dur, 0, d->number + i + 1);
	if (!d->job->block_bytes)
		return;
	ddp_memory(d, d->at + dur * 0.1, -(d->job->block_bytes / 10), 2000 + i);
	ddp_memory(d, d->at + dur / 2, -d->job->block_bytes, 1000 + i);
}

static inline void ddp_launch(struct ddp_writer *d, long floats, int from, int to)
{
	double dur = (double)floats * d->job->us_by_float;
	char args[160];
	double start = d->at + 10;

	snprintf(args, sizeof args, "\"Input type\":[\"TensorList\"],"
		"\"Input Dims\":[[[%ld]]]", floats);
	wt_event(d->w, "cpu_op", "c10d::allreduce_", 1, DDP_MAIN, d->at, 4,
		args);
	d->at += 4;
	if (start < d->gloo_free)
		start = d->gloo_free;
	snprintf(args, sizeof args, "\"Input type\":[\"%s\"],"
		"\"Input Dims\":[[%ld]]", d->job->hook ? d->job->hook :
		ddp_type(d), floats);
	wt_event(d->w, "user_annotation", "gloo:all_reduce", 1, DDP_GLOO, start,
		dur, args);
	d->gloo_free = start + dur;
	for (int i = from; i < to; i++) {
		d->done[i] = d->gloo_free;
		d->bucket_of[i] = d->n_buckets;
	}
	d->n_buckets++;
}

/* Sums of other sizes in the forward pass, far from each other, so that the
 * recording tells latency from rate. */
static inline void ddp_small(struct ddp_writer *d, double after, long floats)
{
	double at = d->at;

	d->at += after;
	ddp_launch(d, floats, 0, 0);
	d->at = at;
	d->n_buckets--;
}

static inline void ddp_backward(struct ddp_writer *d, double compute_us, int sums)
{
	const struct ddp_job *job = d->job;
	long filled = 0;
	int from = 0;

	for (int i = 0; i < job->n_gradients; i++) {
		int full;

		ddp_layer_back(d, job->layers ? job->n_gradients - 1 - i : i,
			compute_us);
		d->at += compute_us;
		filled += job->floats;
		full = sums && job->bucket_floats && (filled >= job->bucket_floats ||
			i + 1 == job->n_gradients);
		ddp_op(d, job->untold ? "autograd::engine::evaluate_function: "
			"Put" : "autograd::engine::evaluate_function: "
			"torch::autograd::AccumulateGrad",
			job->copy_us + (full ? 8 : 4), 0, 0);
		if (!job->untold && !(d->lacks && i + 1 == job->n_gradients))
			ddp_op(d, "torch::autograd::AccumulateGrad", 2,
				job->floats, 0);
		d->at += 2;
		if (job->copy_us > 0)
			ddp_op(d, "torch::distributed::reducer::mul_out",
				job->copy_us, job->floats, 0);
		d->at += job->copy_us + 2;
		if (!full)
			continue;
		ddp_launch(d, filled, from, i + 1);
		filled = 0;
		from = i + 1;
	}
}

/* Waits for each bucket, then copies its gradients. */
static inline void ddp_finalize(struct ddp_writer *d)
{
	int last = -1;

	for (int i = 0; i < d->job->n_gradients; i++) {
		if (d->bucket_of[i] != last && d->at < d->done[i])
			d->at = d->done[i];
		last = d->bucket_of[i];
		ddp_op(d, "torch.distributed.ddp.reducer::copy_bucket_to_grad",
			2, d->job->floats, 0);
		d->at += 2;
	}
}

static inline void ddp_forward(struct ddp_writer *d)
{
	const struct ddp_job *job = d->job;

	if (job->wrapped)
		wt_event(d->w, "user_annotation",
			"DistributedDataParallel.forward", 1, DDP_MAIN, d->at,
			job->forward_us, "");
	if (job->whole)
		wt_event(d->w, "cpu_op", "nn.Module: layers", 1, DDP_MAIN, d->at,
			job->forward_us, "");
	for (int i = 0, n = job->layers ? job->n_gradients : 1; i < n; i++) {
		ddp_layer(d, i, job->forward_us / n);
		d->at += job->forward_us / n;
	}
}

static inline void ddp_step(struct ddp_writer *d, int k)
{
	const struct ddp_job *job = d->job;
	double begin = d->at, factor = job->slower ? job->slower[k] : 1;
	char name[32];

	d->n_buckets = 0;
	if (job->bucket_floats && !job->wrapped)
		for (int i = 0; i < 3; i++)
			ddp_small(d, 1000 + 2500 * i, 12500L << i);
	for (int pass = 0; pass <= job->added; pass++) {
		d->number = job->layers ?
			(k * (job->added + 1) + pass) * job->n_gradients : 0;
		ddp_forward(d);
		ddp_backward(d, job->compute_us * factor, pass == job->added);
	}
	if (job->bucket_floats)
		ddp_finalize(d);
	wt_event(d->w, "user_annotation", "Optimizer.step#SGD.step", 1, DDP_MAIN,
		d->at, job->optimizer_us, "");
	if (job->update)
		ddp_op(d, job->update, job->optimizer_us / 2, 0, 0);
	d->at += job->optimizer_us;
	snprintf(name, sizeof name, "ProfilerStep#%d", k);
	wt_event(d->w, "user_annotation", name, 1, DDP_MAIN, begin,
		d->at - begin, "");
}

static inline void ddp_write(const struct ddp_job *job, struct wt *w)
{
	for (int r = 0; r < job->ranks; r++) {
		struct ddp_writer d = { .job = job, .w = w, .at = 1000 };
		char host[16];

		wt_rank(w, r);
		snprintf(host, sizeof host, "host%d", job->one_host ? 0 : r);
		wt_host(w, host);
		for (int k = 0; k < job->steps; k++) {
			d.lacks = r + 1 == job->ranks && k < job->lacks;
			ddp_step(&d, k);
		}
	}
}

/* The job, read back as a graph. */
struct told {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

static inline struct told tell(const struct ddp_job *job)
{
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };

	ddp_write(job, &t.w);
	t.run = wt_open(&t.w);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	return t;
}

static inline void forget(struct told *t)
{
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
	wt_end(&t->w);
}

#endif /* TAUT_WHATIF_DDP_JOB_H */
