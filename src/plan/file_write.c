/* file_write.c - a plan as JSON that a person can read and edit. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "plan/plan.h"

/* Quotes, backslashes and what is no character are escaped. */
static void put_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fputc('\\', out);
		if (c < ' ')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* Milliseconds to the nanosecond, the same in every locale. */
static void put_ms(FILE *out, const char *key, int64_t ns)
{
	fprintf(out, "\"%s\": %" PRId64 ".%06" PRId64, key, ns / 1000000,
		ns % 1000000);
}

/* Equal ones are written once: [bytes, how many]. */
static void put_gradients(const struct taut_plan_job *job, FILE *out)
{
	fputs(",\n\t\t\"gradients\": [", out);
	for (uint32_t i = 0, n; i < job->n_gradients; i += n) {
		for (n = 1; i + n < job->n_gradients &&
			job->gradient_bytes[i + n] == job->gradient_bytes[i];)
			n++;
		fprintf(out, "%s[%" PRId64 ", %" PRIu32 "]", i ? ", " : "",
			job->gradient_bytes[i], n);
	}
	fputc(']', out);
}

static void put_job(const struct taut_plan_job *job, FILE *out)
{
	fprintf(out, "\t\"job\": {\n\t\t\"framework\": ");
	put_text(out, job->framework);
	fprintf(out, ",\n\t\t\"ranks\": %" PRIu32 ",\n\t\t\"hosts\": %" PRIu32,
		job->n_ranks, job->n_hosts);
	if (job->n_gradients)
		put_gradients(job, out);
	fputs("\n\t},\n", out);
}

static void put_decisions(const struct taut_plan *plan, FILE *out)
{
	fputs("\t\"decisions\": [", out);
	for (uint32_t i = 0; i < plan->n_decisions; i++) {
		const struct taut_decision *d = &plan->decisions[i];

		fprintf(out, "%s\n\t\t{\"change\": ", i ? "," : "");
		put_text(out, d->change);
		fprintf(out, ", \"numerics\": \"%s\"",
			taut_numerics_name(d->numerics));
		if (d->without_ns >= 0) {
			fputs(", ", out);
			put_ms(out, "without_ms", d->without_ns);
		}
		fputc('}', out);
	}
	fprintf(out, "%s]", plan->n_decisions ? "\n\t" : "");
}

static void put_pair(FILE *out, const char *key, int64_t before, int64_t after)
{
	if (before >= 0)
		fprintf(out, ",\n\t\t\"%s_before_bytes\": %" PRId64, key,
			before);
	if (after >= 0)
		fprintf(out, ",\n\t\t\"%s_after_bytes\": %" PRId64, key, after);
}

static void put_predicted(const struct taut_plan *plan, FILE *out)
{
	fputs(",\n\t\"predicted\": {\n\t\t", out);
	put_ms(out, "before_ms", plan->before_ns);
	fputs(",\n\t\t", out);
	put_ms(out, "after_ms", plan->after_ns);
	fputs(",\n\t\t", out);
	put_ms(out, "low_ms", plan->low_ns);
	fputs(",\n\t\t", out);
	put_ms(out, "high_ms", plan->high_ns);
	put_pair(out, "memory", plan->memory_before, plan->memory_after);
	put_pair(out, "network", plan->network_before, plan->network_after);
	fputs("\n\t}", out);
}

static void put_measured(const struct taut_plan *plan, FILE *out)
{
	fputs(",\n\t\"measured\": {\n\t\t", out);
	put_ms(out, "before_ms", plan->measured_before_ns);
	fputs(",\n\t\t", out);
	put_ms(out, "after_ms", plan->measured_after_ns);
	fputs("\n\t}", out);
}

taut_status taut_plan_write(const struct taut_plan *plan, FILE *out,
	struct taut_error *reterr)
{
	fputs("{\n\t\"taut_plan\": 1,\n", out);
	put_job(&plan->job, out);
	fprintf(out, "\t\"allow\": \"%s\",\n", taut_numerics_name(plan->allow));
	put_decisions(plan, out);
	if (plan->after_ns > 0)
		put_predicted(plan, out);
	if (plan->measured_after_ns > 0)
		put_measured(plan, out);
	fputs("\n}\n", out);
	return ferror(out) ? taut_error_set(reterr, TAUT_EIO, -1,
		"a plan could not be written: %s", strerror(errno)) : TAUT_OK;
}
