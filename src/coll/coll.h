/* coll.h - what the files of the collectives share.
 *
 *     schedule.c  ways/   shapes to schedules: one file a way, one row each
 *     reduce.c    ...     the arithmetic, for several processors
 *     plan.c              what all calls of one shape have in common
 *     run.c   hub.c       carry calls out, pass by pass, over an engine
 *     comm.c  create.c    communicators: what was begun, and over what
 *     table.c rows.c      what is chosen
 *     meet.c  ...         how ranks find each other, and see that one is gone
 *     host.c              which ranks are on one host
 *     cores.c             whether those can all run at once
 *     engines/            inproc, shm, tcp, ucx, mixed, by_size, mpi: the files of one
 *                         begin alike
 */
#ifndef TAUT_COLL_COLL_H
#define TAUT_COLL_COLL_H

#include <taut/coll.h>

/* --- meet.c: how ranks find each other ------------------------------------------
 * A star of TCP connections around rank 0. Each side proves that it knows the
 * secret without sending it; who cannot, or says nothing, is dropped without
 * holding up the others.
 * Threads: one at a time; watching has a thread of its own. */
struct tauti_meet;

struct tauti_meet_options {
	uint32_t rank, n_ranks;
	const char *address; /* HOST:PORT of rank 0 */
	const char *secret;
	int64_t within_ns, lost_after_ns;
	bool listens; /* rank 0 is there: where nobody listens it is gone, and is not
	                 waited for */
};

/* Returns when all are there. TAUT_EIO, TAUT_EMATCH as taut_comm_create(). */
TAUT_NODISCARD taut_status tauti_meet_create(
	const struct tauti_meet_options *options,
	struct tauti_meet **ret_meet, struct taut_error *reterr);
/* What each rank says, to all: ret_all has n_ranks times `bytes`, by rank. All
 * ranks call it, with as many bytes; not once watching has begun. */
TAUT_NODISCARD taut_status tauti_meet_gather(struct tauti_meet *meet,
	const void *mine, size_t bytes, void *ret_all,
	struct taut_error *reterr);
/* While engines connect, before watching. How long each of its stages may take; */
int64_t tauti_meet_within_ns(const struct tauti_meet *meet);
/* what the others say meanwhile, the last of these that one does; */
enum tauti_meet_word {
	TAUTI_MEET_NOTHING,
	TAUTI_MEET_SUMMONS, /* what this stage is for will not be: gather now */
	TAUTI_MEET_ENDS,    /* one has gone or given up, or the time is over: the next
	                       gather fails, and says who */
};
enum tauti_meet_word tauti_meet_hear(struct tauti_meet *meet);
/* tells all others to gather now, which this rank does next; */
void tauti_meet_summon(struct tauti_meet *meet);
/* the names of the network devices that its connections have their addresses on,
 * with commas between. False: they are not known. */
TAUT_NODISCARD bool tauti_meet_devices(
	const struct tauti_meet *meet, char *ret_names, size_t bytes);
/* whether all such names, but for loopback, are among devices, as UCX_NET_DEVICES has them;
 * NULL: those are all. */
TAUT_NODISCARD bool tauti_devices_have(const char *devices, const char *names);
/* whether UCX_NET_DEVICES, or nobody, lets connections of our own go where those do; */
TAUT_NODISCARD bool tauti_meet_may_connect(const struct tauti_meet *meet);
/* the address that this rank's end of its connection has (of rank 0's: the first that is
 * not within its host, or the first), or that rank 0 has for another rank; the port is the
 * meeting's. False: it is not known. */
struct sockaddr_storage;
TAUT_NODISCARD bool tauti_meet_address(const struct tauti_meet *meet, bool of_rank_0,
	struct sockaddr_storage *ret_address);
enum { TAUTI_REACHED = 16 }; /* numbers that say how far a rank took part */

/* Whether this rank waits for others in what all of those took part in that have
 * left: no more; not yet; now; now, and for one that has left, too. */
enum tauti_need {
	TAUTI_NEEDS_NOTHING, TAUTI_NEEDS_LATER, TAUTI_NEEDS_NOW,
	TAUTI_NEEDS_LEFT,
};

/* What the watching thread asks and tells. */
struct tauti_watch {
	/* At most once: a rank is gone; the line names it. */
	void (*lost)(void *context, const struct taut_error *why);
	/* Once for each rank that has left in peace, with what it said then; all
	 * ranks hear it in one order. NULL: it does not matter. */
	void (*left)(void *context, uint32_t rank, const uint32_t *reached);
	/* NULL: nothing. What it answers changes: tauti_meet_ring(). */
	enum tauti_need (*needs)(void *context);
	void *context;
};

/* From now on a thread looks after the others, by way of rank 0. When one is gone
 * (its connection closes, or it says nothing for lost_after_ns) all others are
 * told, and when one leaves.
 * Rank 0 may leave too. Then it stays in tauti_meet_destroy(), and watches, until
 * none of the others needs anybody, for lost_after_ns at most. Who needs somebody
 * for so long when rank 0 has gone, or one that has left, takes all for lost. */
TAUT_NODISCARD taut_status tauti_meet_watch(struct tauti_meet *meet,
	const struct tauti_watch *watch, struct taut_error *reterr);
/* This rank cannot go on: lost() of all others is called with this line. Before
 * tauti_meet_destroy(), on any thread but the watching one; waits for nobody. */
void tauti_meet_fail(struct tauti_meet *meet, const struct taut_error *why);
/* Leaves in peace: left() of all others is called with these numbers. The first
 * counts. tauti_meet_destroy() follows, maybe later. Returns when all were told, a
 * second later at most: who sees then that an engine is gone knows why. */
void tauti_meet_leave(
	struct tauti_meet *meet, const uint32_t reached[TAUTI_REACHED]);
/* Has the watching thread look; any thread. Nothing when there is none. */
void tauti_meet_ring(struct tauti_meet *meet);
/* Leaves in peace, with nothing reached, unless it did. When it returns no
 * function of the watch is called any more. NULL is fine. */
void tauti_meet_destroy(struct tauti_meet *meet);

/* --- engines ------------------------------------------------------------------------*/
/* What a job was told to use. */
enum tauti_want { TAUTI_WANT_AUTO, TAUTI_WANT_SHM, TAUTI_WANT_UCX, TAUTI_WANT_TCP };
/* name NULL: of TAUT_ENGINE. TAUT_EINVAL: there is no such engine. */
TAUT_NODISCARD taut_status tauti_want_read(const char *name, enum tauti_want *ret_want,
	struct taut_error *reterr);

struct tauti_engine {
	const struct taut_coll_engine *table; /* NULL: none */
	void *context;
};

/* One process, a thread a rank: ret_engines has n_ranks places. */
TAUT_NODISCARD taut_status tauti_inproc_create(uint32_t n_ranks,
	struct tauti_engine *ret_engines, struct taut_error *reterr);
/* The ranks of this host, by memory that they share. host_of: by rank. spins: they
 * can all run at once. All ranks call it, also those that are alone on theirs. */
TAUT_NODISCARD taut_status tauti_shm_create(struct tauti_meet *meet,
	uint32_t rank, uint32_t n_ranks, const uint32_t *host_of, bool spins,
	struct tauti_engine *ret_engine, struct taut_error *reterr);
/* All ranks by TCP, on connections of their own: those of other hosts, by host_of; NULL:
 * all others. All ranks call it. */
TAUT_NODISCARD taut_status tauti_tcp_create(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, const uint32_t *host_of, struct tauti_engine *ret_engine,
	struct taut_error *reterr);
/* The same for ranks that can do without: when it fails with *ret_without it failed on all
 * of them, and they may go on together. It takes no longer than within_ns. */
TAUT_NODISCARD taut_status tauti_tcp_try(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, const uint32_t *host_of, int64_t within_ns,
	struct tauti_engine *ret_engine, bool *ret_without, struct taut_error *reterr);
/* All ranks by UCX, which is looked for at run time. TAUT_EIO: it is not there. */
TAUT_NODISCARD taut_status tauti_ucx_create(struct tauti_meet *meet,
	uint32_t rank, uint32_t n_ranks, struct tauti_engine *ret_engine,
	struct taut_error *reterr);
/* The same in two steps. The first looks for the library, which may take seconds, and
 * needs nobody else. The second takes ucx over, also when it fails; without it, ucx goes
 * with tauti_ucx_destroy(). */
struct tauti_ucx;
TAUT_NODISCARD taut_status tauti_ucx_open(uint32_t n_ranks,
	struct tauti_ucx **ret_ucx, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_ucx_meet(struct tauti_ucx *ucx,
	struct tauti_meet *meet, uint32_t rank, struct tauti_engine *ret_engine,
	struct taut_error *reterr);
void tauti_ucx_destroy(void *ucx);
/* Whether this host has a network that moves memory without its processors. */
bool tauti_has_rdma(void);
/* near to those on this rank's host, far, which must have fd and arm, to the
 * others; takes both over, but when it fails. */
TAUT_NODISCARD taut_status tauti_mixed_create(uint32_t rank, uint32_t n_ranks,
	const uint32_t *host_of, struct tauti_engine near,
	struct tauti_engine far, struct tauti_engine *ret_engine,
	struct taut_error *reterr);
/* Messages of up to most_bytes by small, longer ones by large; both must have fd, arm,
 * discard and withdraw. Takes both over, but when it fails. */
TAUT_NODISCARD taut_status tauti_by_size_create(size_t most_bytes,
	struct tauti_engine small, struct tauti_engine large,
	struct tauti_engine *ret_engine, struct taut_error *reterr);
/* What most_bytes should be, measured over both engines between ranks of different hosts;
 * the same on all, who all call it. 0: none is quicker by small; SIZE_MAX: none is slower.
 * spins: as shm. When it fails both are destroyed. */
TAUT_NODISCARD taut_status tauti_by_size_measure(struct tauti_meet *meet,
	uint32_t rank, uint32_t n_ranks, const uint32_t *host_of, bool spins,
	struct tauti_engine *small, struct tauti_engine *large,
	size_t *ret_most_bytes, struct taut_error *reterr);

/* What names this host, the same for two processes exactly if they can share
 * memory and are one host to their user: the kernel's boot, host name, namespace of
 * network, user, and what is mounted at /dev/shm. */
uint64_t tauti_host_id(void);
/* How many differ; host_of NULL: all are on one. */
uint32_t tauti_hosts_count(const uint32_t *host_of, uint32_t n_ranks);
/* Ranks on the host of this one, itself among them. */
uint32_t tauti_hosts_beside(
	const uint32_t *host_of, uint32_t n_ranks, uint32_t rank);

/* --- cores.c ---------------------------------------------------------------------------
 * Who looks for news without sleeping takes a core from another rank, where there
 * are too few for all. This alone says whether there are: create.c asks it, and
 * tells the hub and the engine of shared memory. */
enum { TAUTI_CORE_WORDS = 16 };

struct tauti_cores { /* bytes that ranks send each other */
	uint64_t may_use[TAUTI_CORE_WORDS]; /* a bit for each core */
	uint64_t limit; /* thousandths of a core that its control group grants
	                   to all in it; 0: no limit */
	uint64_t group; /* which one that is */
};

void tauti_cores_tell(struct tauti_cores *ret_cores); /* of this process */
/* Whether n_ranks can run at once on all cores that these n processes of one host
 * may use, within their limits. */
bool tauti_cores_enough(
	const struct tauti_cores *cores, uint32_t n, uint32_t n_ranks);
bool tauti_cores_enough_here(uint32_t n_ranks); /* this process alone */

#endif /* TAUT_COLL_COLL_H */
