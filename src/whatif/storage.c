/* storage.c - storage of another speed, for loaders that wait for theirs. */
#include "whatif/compute.h"

enum { RATE, FROM };

static const struct taut_parameter parameters[] = {
	[RATE] = { "", "FACTOR|RATE", NULL, "of the storage: 2x, 0.5x, or what "
		"one reader gets of it while it waits: 500MB/s" },
	[FROM] = { "from", "RATE", "", "what the recorded storage gave; without "
		"it, the bytes read in the time that was waited" },
};

static const double least = 1e-6, most = 1e6;

/* Bytes a second of one thread that waits. */
static taut_status recorded_rate(struct tauti_whatif *w,
	const struct tauti_change *c, const struct tauti_waits *are,
	double *ret_rate, struct taut_error *err)
{
	double bytes = are->storage_bytes > 0 ? are->storage_bytes :
		are->read_bytes;
	bool is_factor;
	taut_status status;

	if (tauti_param_given(c, FROM)) {
		status = tauti_param_scaled(
			c, FROM, TAUTI_BYTES_PER_S, &is_factor, ret_rate, err);
		if (!status && (is_factor || *ret_rate <= 0))
			status = tauti_param_wrong(c, FROM,
				"the recorded storage's rate, like 500MB/s",
				err);
		return status;
	}
	if (bytes <= 0 || are->wait_ns <= 0)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording "
			"does not tell how fast its storage was; give a "
			"factor like storage=2x, or the rate: from=500MB/s",
			c->text);
	*ret_rate = bytes / are->wait_ns * 1e9;
	return tauti_note(w, err, "%s: the recorded storage is taken to have "
		"given %.3g MB/s to each reader that waited for it, and all "
		"of a wait to shrink with the rate; from=RATE says otherwise",
		c->text, *ret_rate / 1e6);
}

static taut_status find_factor(struct tauti_whatif *w,
	const struct tauti_change *c, const struct tauti_waits *are,
	double *ret_factor, struct taut_error *err)
{
	bool is_factor;
	double value, rate = 1;
	taut_status status = tauti_param_scaled(
		c, RATE, TAUTI_BYTES_PER_S, &is_factor, &value, err);

	if (!status && is_factor && tauti_param_given(c, FROM))
		status = tauti_param_wrong(
			c, FROM, "none beside a factor", err);
	if (!status && !is_factor)
		status = recorded_rate(w, c, are, &rate, err);
	if (!status && !(value / rate >= least && value / rate <= most))
		status = tauti_param_wrong(c, RATE,
			"from a millionth to a million times what there was",
			err);
	if (!status)
		*ret_factor = value / rate;
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct tauti_waits are;
	double factor;
	taut_status status = tauti_waits_find(w, c, &are, err);

	if (!status)
		status = find_factor(w, c, &are, &factor, err);
	return status ? status : tauti_waits_scale(
		w, c, &are, 1 / factor, err);
}

const struct tauti_transformation tauti_whatif_storage = {
	.info = {
		.name = "storage", .group = "data",
		.summary = "faster or slower storage for the data loader",
		.assumption = "what a batch's preparation waited for, beside a "
			"core, is storage, and all of it takes as many times "
			"as long; all readers get that at once",
		.source = "what the recorder saw of each batch: time on a "
			"core, in its queue, and of other threads",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};
