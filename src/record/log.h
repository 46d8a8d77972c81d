/* log.h - what the files of this room share. */
#ifndef TAUT_RECORD_LOG_H
#define TAUT_RECORD_LOG_H

#include <stddef.h>

#include <taut/record.h>

TAUT_BEGIN_DECLS

/* Most records of a log, TAUT_EINVAL above: 16 GiB. */
#define TAUTI_LOG_MOST_RECORDS (UINT32_C(1) << 27)
/* Of a longer text only this many bytes count. */
#define TAUTI_LOG_TEXT_BYTES ((size_t)64 << 10)
/* A log holds at most this many texts. */
#define TAUTI_LOG_MOST_TEXTS 12288u

/* A name for this machine's CLOCK_REALTIME: the kernel's boot and, since a
 * container or a namespace that has a name of its own counts as a host of its
 * own, the host's name. size is at least 64. */
void tauti_log_clock_name(char *out, size_t size);
/* HOST-PID, as files of this process are called; docs/recording.md says what HOST is.
 * python/taut/_process.py has the same. */
void tauti_log_process_name(char *out, size_t size);

/* As taut_log_text(), for those who may not wait: locks nothing, and writes
 * the text again if it is there, so that it may have several ids. */
uint32_t tauti_log_text_anew(struct taut_log *log, const char *text);

TAUT_END_DECLS
#endif /* TAUT_RECORD_LOG_H */
