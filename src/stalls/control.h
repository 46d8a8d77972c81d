/* control.h - what the processes of a job that `taut stalls` runs share: one page.
 *
 * The command makes FOLDER/control and names the folder in TAUT_STALLS. The loader's side of
 * the job (python/taut/_stalls*.py) maps it and says how much of what is opened must come
 * from storage; the preloaded object (preload.c) does that and counts.
 *
 *   command ----> control <---- _stalls.py: phase by phase, writes cold_ppm
 *                    ^
 *                    +--------- preload.c in every process: forgets what is opened, counts
 *
 * Cold: when a regular file is opened for reading, the system is told to forget its pages
 * (POSIX_FADV_DONTNEED: needs no rights, and leaves alone what others have mapped), after
 * those that are not yet written were. Which part of a file is a function of device, inode
 * and the number of the piece alone, so that a limited cache is the same items each time
 * (cold.h):
 *
 *     piece    each 4 MiB of a file; most files are one
 *     cold     if mix(device, inode, piece) % 1000000 < cold_ppm
 *
 * What Python imports (.py, .pyc) is no data: it is neither forgotten nor counted.
 *
 * FOLDER/files has a line "BYTES PATH" for each file that was opened for reading, once a
 * process (and what it forked, for what was listed before), in the order in which they
 * were, at most 65,536 of a process; not of /proc, /sys and /dev. A line "+BYTES PATH", once
 * again, is of one that was opened while the loader that is measured was at work: an item,
 * where each is a file; all else may be a model, a library, a configuration. Who makes FOLDER
 * makes it, empty. A process that was killed may leave a torn line.
 *
 * Threads: all fields that change are atomic; any process at any time.
 * Units:   bytes. */
#ifndef TAUT_STALLS_CONTROL_H
#define TAUT_STALLS_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#define TAUTI_STALLS_MAGIC "tautcold"
enum { TAUTI_STALLS_CONTROL_BYTES = 4096, TAUTI_STALLS_VERSION = 1 };

/* Offsets are part of it: Python has them too. */
struct tauti_stalls_control {
	char magic[8];              /*  0 */
	uint32_t version;           /*  8 */
	_Atomic uint32_t cold_ppm;  /* 12: 0: nothing is forgotten */
	_Atomic uint64_t opened;    /* 16: files, for reading, while it is preloaded */
	_Atomic uint64_t opened_bytes; /* 24: their sizes */
	_Atomic uint64_t forgotten; /* 32: files, of which all or a piece was */
	_Atomic uint64_t forgotten_bytes; /* 40 */
	_Atomic uint32_t processes; /* 48: that it was loaded into */
	_Atomic uint32_t is_listing; /* 52: enum tauti_stalls_listing. The command begins it,
	                                    _stalls.py goes on and ends it */
};

enum tauti_stalls_listing { /* what is written to FOLDER/files */
	TAUTI_STALLS_LIST_NOTHING,
	TAUTI_STALLS_LIST_OPENED, /* "BYTES PATH" */
	TAUTI_STALLS_LIST_LOADED, /* "+BYTES PATH" */
};

#endif /* TAUT_STALLS_CONTROL_H */
