/* error.c - one line for the fault, kept by the caller. */
#include <taut/base.h>

#include <stdarg.h>
#include <stdio.h>

/* A control character in a file's name must not break the line in two. */
static void keep_one_line(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
	}
}

taut_status taut_error_set(struct taut_error *err, taut_status code,
	int64_t offset, const char *fmt, ...)
{
	if (!err)
		return code;
	err->code = code;
	err->offset = offset;
	va_list args;
	va_start(args, fmt);
	int written = vsnprintf(err->message, sizeof err->message, fmt, args);
	va_end(args);
	if (written < 0)
		err->message[0] = '\0';
	keep_one_line(err->message);
	return code;
}

const char *taut_status_name(taut_status code)
{
	switch (code) {
	case TAUT_OK:
		return "done";
	case TAUT_ENOMEM:
		return "out of memory";
	case TAUT_EIO:
		return "input/output error";
	case TAUT_EFORMAT:
		return "malformed input";
	case TAUT_EINVAL:
		return "invalid argument";
	case TAUT_EMATCH:
		return "ranks do not match";
	case TAUT_EAGAIN:
		return "not now, try again";
	}
	return "unknown status";
}

const char *taut_version(void)
{
	return TAUT_VERSION;
}
