/* What is at an address, and copies, over the fake driver. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/gpu/fake.h"
#include "tests/support/alloc_fail.h"

static struct tauti_gpu *gpu;
static tauti_gpu_context own;

static int set_up(void **state)
{
	(void)state;
	assert_false(cuInit(0));
	assert_false(cuCtxCreate_v2(&own, 0, 0));
	assert_int_equal(tauti_gpu_create(&gpu, NULL), TAUT_OK);
	return 0;
}

/* Whatever a test did, nothing is left behind. */
static int tear_down(void **state)
{
	struct fake_counts counts;

	(void)state;
	fake_fail(NULL, 0, 0);
	tauti_gpu_destroy(gpu);
	cuCtxDestroy_v2(own);
	counts = fake_counts();
	assert_int_equal(counts.streams, 0);
	assert_int_equal(counts.events, 0);
	assert_int_equal(counts.pinned, 0);
	assert_int_equal(counts.blocks, 0);
	assert_int_equal(counts.modules, 0);
	assert_int_equal(counts.contexts, 0);
	assert_int_equal(counts.depth, 0);
	assert_int_equal(counts.faults, 0);
	return 0;
}

static void *memory(tauti_gpu_address at)
{
	return (void *)(uintptr_t)at;
}

static struct tauti_gpu_place found(const void *at)
{
	struct tauti_gpu_place place = { .device = 77 };
	struct taut_error err = { .message = "" };

	if (tauti_gpu_find(gpu, at, &place, &err))
		fail_msg("%s", err.message);
	return place;
}

static void *allocated(size_t bytes)
{
	tauti_gpu_address at = 0;

	assert_false(cuMemAlloc_v2(&at, bytes));
	return memory(at);
}

static void freed(void *at)
{
	assert_false(cuMemFree_v2((tauti_gpu_address)(uintptr_t)at));
}

/* --- places -------------------------------------------------------------------------------*/

static void kinds_of_memory(void **state)
{
	tauti_gpu_address managed;
	void *heap = malloc(64), *pinned, *device = allocated(1000);

	(void)state;
	assert_false(cuMemAllocManaged(&managed, 64, 1));
	assert_false(cuMemHostAlloc(&pinned, 64, 1));
	assert_null(found(heap).context);
	assert_null(found(&heap).context);
	assert_null(found(pinned).context);
	assert_ptr_equal(found(device).context, own);
	assert_ptr_equal(found((char *)device + 999).context, own);
	assert_int_equal(found(device).device, 0);
	assert_ptr_equal(found(memory(managed)).context, own);
	assert_false(cuMemFreeHost(pinned));
	assert_false(cuMemFree_v2(managed));
	freed(device);
	free(heap);
}

/* Of a pool: any context of its device. The primary one is not made where the program
 * has another. */
static void memory_of_pools(void **state)
{
	tauti_gpu_context primary, other, popped;
	tauti_gpu_address pool;
	int before = fake_counts().primaries;

	(void)state;
	assert_false(cuMemAllocAsync(&pool, 64, NULL));
	assert_ptr_equal(found(memory(pool)).context, own);
	assert_int_equal(fake_counts().primaries, before);
	/* Nothing is kept of it that the context takes along. */
	assert_false(cuCtxCreate_v2(&other, 0, 0));
	assert_ptr_equal(found(memory(pool)).context, other);
	assert_false(cuCtxDestroy_v2(other));
	assert_ptr_equal(found(memory(pool)).context, own);
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(found(memory(pool)).context, primary);
	tauti_gpu_forget(gpu, memory(pool), 0);
	assert_ptr_equal(found(memory(pool)).context, primary);
	assert_int_equal(fake_counts().contexts, 3); /* one reference is ours */
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
	/* And where there is none to take. */
	assert_false(cuCtxPopCurrent_v2(&popped));
	tauti_gpu_release(gpu);
	tauti_gpu_forget(gpu, memory(pool), 0);
	assert_non_null(found(memory(pool)).context);
	assert_int_equal(fake_counts().primaries, before + 2);
	assert_false(cuCtxPushCurrent_v2(own));
	assert_false(cuMemFree_v2(pool));
}

static void no_context_is_needed_or_left_behind(void **state)
{
	void *device = allocated(64);
	tauti_gpu_context gone, now = own;
	struct tauti_gpu_side *side;

	(void)state;
	assert_false(cuCtxPopCurrent_v2(&gone));
	assert_ptr_equal(found(device).context, own);
	assert_int_equal(tauti_gpu_side_of(gpu, own, &side, NULL), TAUT_OK);
	assert_false(cuCtxGetCurrent(&now));
	assert_null(now);
	assert_false(cuCtxPushCurrent_v2(own));
	freed(device);
}

static void a_hit_asks_for_the_number_alone(void **state)
{
	void *device = allocated(4096);
	struct fake_counts before, after;

	(void)state;
	found(device);
	before = fake_counts();
	for (int i = 0; i < 100; i++)
		found((char *)device + 40 * i);
	after = fake_counts();
	assert_int_equal(after.questions, before.questions);
	assert_int_equal(after.id_questions, before.id_questions + 100);
	tauti_gpu_forget(gpu, device, 0);
	found(device);
	assert_int_equal(fake_counts().questions, before.questions + 1);
	freed(device);
}

/* Nobody tells of frees: the next owner of an address is another device's, or has less
 * of it, or nobody has it. */
static void an_address_that_is_given_out_again_is_not_mistaken(void **state)
{
	tauti_gpu_context other, popped;
	void *first = allocated(4096), *second;

	(void)state;
	assert_ptr_equal(found(first).context, own);
	freed(first);
	assert_null(found(first).context);
	assert_false(cuCtxCreate_v2(&other, 0, 1));
	second = allocated(512);
	assert_ptr_equal(second, first);
	assert_ptr_equal(found(first).context, other);
	assert_int_equal(found(first).device, 1);
	assert_null(found((char *)first + 600).context);
	freed(second);
	assert_false(cuCtxPopCurrent_v2(&popped));
	second = allocated(4096);
	assert_ptr_equal(second, first);
	assert_ptr_equal(found((char *)first + 600).context, own);
	freed(second);
	assert_false(cuCtxDestroy_v2(other));
}

enum { SLOTS = 64, TURNS = 3000 };

static void seeded_frees_and_reuse(void **state)
{
	struct {
		char *at;
		size_t bytes;
		int device;
	} slots[SLOTS] = { { NULL, 0, 0 } };
	tauti_gpu_context contexts[2] = { own }, popped;
	uint64_t random = 42;

	(void)state;
	assert_false(cuCtxCreate_v2(&contexts[1], 0, 1));
	assert_false(cuCtxPopCurrent_v2(&popped));
	for (int turn = 0; turn < TURNS; turn++) {
		uint64_t r = random = random * 6364136223846793005u + 1;
		int k = (int)(r >> 33) % SLOTS, device = (int)(r >> 45 & 1);

		if (slots[k].at) {
			freed(slots[k].at);
			if (r >> 50 & 1)
				tauti_gpu_forget(gpu, slots[k].at, 0);
			slots[k].at = NULL;
		} else {
			slots[k].bytes = 1 + (r >> 40) % 3000;
			slots[k].device = device;
			assert_false(cuCtxPushCurrent_v2(contexts[device]));
			slots[k].at = allocated(slots[k].bytes);
			assert_false(cuCtxPopCurrent_v2(&popped));
		}
		k = (int)((r >> 20) % SLOTS);
		if (!slots[k].at)
			continue;
		assert_ptr_equal(found(slots[k].at +
			(r >> 10) % slots[k].bytes).context,
			contexts[slots[k].device]);
	}
	for (int k = 0; k < SLOTS; k++)
		if (slots[k].at)
			freed(slots[k].at);
	assert_false(cuCtxDestroy_v2(contexts[1]));
}

static void what_the_driver_cannot_tell(void **state)
{
	static const unsigned no_use[] = { 3, 4, 34, 46, 100, 101, 201, 802,
		803, 804 };
	void *device = allocated(64);
	struct tauti_gpu_place place;
	struct taut_error err = { .message = "" };
	tauti_gpu_context other, popped;
	tauti_gpu_address pool = 0;

	(void)state;
	assert_false(cuCtxCreate_v2(&other, 0, 1));
	assert_false(cuMemAllocAsync(&pool, 64, NULL));
	assert_false(cuCtxPopCurrent_v2(&popped));
	for (size_t i = 0; i < sizeof no_use / sizeof no_use[0]; i++) {
		fake_fail("cuPointerGetAttributes", 1, no_use[i]);
		assert_null(found(device).context);
	}
	fake_fail("cuPointerGetAttributes", 1, 700);
	assert_int_equal(tauti_gpu_find(gpu, device, &place, &err), TAUT_EIO);
	assert_string_equal(err.message, "cuPointerGetAttributes: "
		"CUDA_ERROR_WISHED_FOR (700)");
	/* one that does not know of ranges */
	fake_fail("cuPointerGetAttributes", 0, TAUTI_GPU_INVALID_VALUE);
	assert_ptr_equal(found(device).context, own);
	assert_null(found(&place).context);
	assert_int_equal(found(memory(pool)).device, 1);
	assert_ptr_equal(found(memory(pool)).context, gpu->primary[1]);
	assert_null(gpu->primary[0]);
	fake_fail(NULL, 0, 0);
	freed(device);
	freed(memory(pool));
	assert_false(cuCtxDestroy_v2(other));
}

/* --- copies -------------------------------------------------------------------------------*/

static taut_status wait_for(struct tauti_gpu_copy *copy, struct taut_error *err)
{
	bool over = false;
	taut_status status = TAUT_OK;

	for (int i = 0; !over; i++) {
		status = tauti_gpu_copy_test(copy, &over, err);
		assert_true(i < 1000);
	}
	return status;
}

static taut_status there_and_back(
	void *device, const char *text, struct taut_error *err)
{
	struct tauti_gpu_lane *lane = NULL;
	struct tauti_gpu_side *side = NULL;
	struct tauti_gpu_copy copy = { NULL, NULL };
	taut_status status = tauti_gpu_side_of(gpu, own, &side, err);

	if (!status)
		status = tauti_gpu_lane_take(side, 4096, &lane, err);
	if (status)
		return status;
	strcpy(tauti_gpu_lane_memory(lane), text);
	status = tauti_gpu_copy_add(side, TAUTI_GPU_UP, device,
		tauti_gpu_lane_memory(lane), 4096, err);
	if (!status)
		status = tauti_gpu_copy_mark(side, &copy, err);
	if (!status)
		status = wait_for(&copy, err);
	memset(tauti_gpu_lane_memory(lane), 0, 4096);
	if (!status)
		status = tauti_gpu_copy_add(side, TAUTI_GPU_DOWN,
			tauti_gpu_lane_memory(lane), device, 4096, err);
	if (!status)
		status = tauti_gpu_copy_mark(side, &copy, err);
	if (!status)
		status = wait_for(&copy, err);
	if (!status)
		assert_string_equal(tauti_gpu_lane_memory(lane), text);
	tauti_gpu_lane_give(lane);
	return status;
}

static void bytes_go_there_and_back(void **state)
{
	void *device = allocated(4096);
	tauti_gpu_context popped;

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(there_and_back(device, "there", NULL), TAUT_OK);
	/* what was made once is used again */
	assert_int_equal(fake_counts().streams, 1);
	assert_int_equal(fake_counts().pinned, 1);
	assert_int_equal(fake_counts().events, 1);
	assert_false(cuCtxPopCurrent_v2(&popped));
	assert_int_equal(there_and_back(device, "nowhere", NULL), TAUT_OK);
	assert_false(cuCtxPushCurrent_v2(own));
	freed(device);
}

static void lanes_are_few_in_the_end(void **state)
{
	enum { MANY = 3 * TAUTI_GPU_LANES_KEPT };
	struct tauti_gpu_lane *lanes[MANY];
	struct tauti_gpu_side *side;

	(void)state;
	assert_int_equal(tauti_gpu_side_of(gpu, own, &side, NULL), TAUT_OK);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(tauti_gpu_lane_take(
			side, 100, &lanes[i], NULL), TAUT_OK);
	assert_int_equal(fake_counts().pinned, MANY);
	for (int i = 0; i < MANY; i++)
		tauti_gpu_lane_give(lanes[i]);
	assert_int_equal(fake_counts().pinned, TAUTI_GPU_LANES_KEPT);
}

static void give_all(struct tauti_gpu_lane **lanes, int n)
{
	for (int i = 0; i < n; i++)
		tauti_gpu_lane_give(lanes[i]);
}

/* Lanes of two contexts, and one that is too long to be kept beside another. */
static void lanes_that_wait_are_bounded_in_bytes(void **state)
{
	const size_t most = TAUTI_GPU_LANE_BYTES_KEPT;
	struct tauti_gpu_lane *lanes[4];
	struct tauti_gpu_side *side, *other_side;
	tauti_gpu_context other, popped;
	int before = fake_counts().pins;

	(void)state;
	assert_false(cuCtxCreate_v2(&other, 0, 1));
	assert_false(cuCtxPopCurrent_v2(&popped));
	assert_int_equal(tauti_gpu_side_of(gpu, own, &side, NULL), TAUT_OK);
	assert_int_equal(
		tauti_gpu_side_of(gpu, other, &other_side, NULL), TAUT_OK);
	for (int i = 0; i < 4; i++)
		assert_int_equal(tauti_gpu_lane_take(i % 2 ? side : other_side,
			most / 2 - 1, &lanes[i], NULL), TAUT_OK);
	assert_int_equal(fake_counts().pinned, 4);
	give_all(lanes, 4);
	assert_int_equal(fake_counts().pinned, 2);
	assert_int_equal(gpu->lane_bytes, 2 * (most / 2 - 1));
	assert_int_equal(tauti_gpu_lane_take(side, most + 1, &lanes[0], NULL),
		TAUT_OK);
	tauti_gpu_lane_give(lanes[0]);
	assert_int_equal(fake_counts().pinned, 1);
	assert_int_equal(gpu->lane_bytes, most + 1);
	assert_int_equal(tauti_gpu_lane_take(side, most + 1, &lanes[0], NULL),
		TAUT_OK);
	tauti_gpu_lane_give(lanes[0]);
	assert_int_equal(fake_counts().pins, before + 5);
	assert_int_equal(
		tauti_gpu_lane_take(other_side, 100, &lanes[0], NULL), TAUT_OK);
	tauti_gpu_lane_give(lanes[0]);
	assert_int_equal(fake_counts().pinned, 1);
	assert_int_equal(gpu->lane_bytes, 100);
	tauti_gpu_lanes_drop(gpu);
	assert_int_equal(fake_counts().pinned, 0);
	assert_int_equal(gpu->lane_bytes, 0);
	assert_false(cuCtxDestroy_v2(other));
}

static void lanes_without_a_use_go_after_a_while(void **state)
{
	struct tauti_gpu_lane *lanes[3];
	struct tauti_gpu_side *side;

	(void)state;
	assert_int_equal(tauti_gpu_side_of(gpu, own, &side, NULL), TAUT_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tauti_gpu_lane_take(
			side, 100, &lanes[i], NULL), TAUT_OK);
	give_all(lanes, 2);
	assert_int_equal(fake_counts().pinned, 3);
	gpu->lane_kept_ns = -1; /* all were given back long ago */
	tauti_gpu_lane_give(lanes[2]);
	assert_int_equal(fake_counts().pinned, 0);
}

static void where_nothing_can_be_pinned_the_heap_does(void **state)
{
	void *device = allocated(4096);

	(void)state;
	fake_fail("cuMemHostAlloc", 0, TAUTI_GPU_OUT_OF_MEMORY);
	assert_int_equal(there_and_back(device, "heap", NULL), TAUT_OK);
	fake_fail(NULL, 0, 0);
	freed(device);
}

/* Each call of the driver that a copy makes fails once. */
static void every_failure_is_told_and_nothing_is_lost(void **state)
{
	static const char *const names[] = { "cuCtxPushCurrent_v2", "cuCtxGetId",
		"cuStreamCreate", "cuEventCreate", "cuEventRecord",
		"cuEventQuery", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2" };
	void *device = allocated(4096);
	struct taut_error err;

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		for (int nth = 1; nth < 4; nth++) {
			tauti_gpu_release(gpu);
			fake_fail(names[i], nth, 700);
			err.message[0] = '\0';
			if (there_and_back(device, "again", &err))
				assert_non_null(strstr(err.message,
					"CUDA_ERROR_WISHED_FOR (700)"));
			fake_fail(NULL, 0, 0);
			assert_int_equal(there_and_back(
				device, "well", &err), TAUT_OK);
		}
	freed(device);
}

static void a_context_that_goes_takes_its_own_along(void **state)
{
	tauti_gpu_context other;
	struct tauti_gpu_side *side, *again;
	struct tauti_gpu_lane *lane;

	(void)state;
	assert_false(cuCtxCreate_v2(&other, 0, 1));
	assert_int_equal(tauti_gpu_side_of(gpu, other, &side, NULL), TAUT_OK);
	assert_int_equal(tauti_gpu_side_of(gpu, other, &again, NULL), TAUT_OK);
	assert_ptr_equal(side, again);
	assert_int_equal(tauti_gpu_lane_take(side, 100, &lane, NULL), TAUT_OK);
	assert_false(cuCtxDestroy_v2(other));
	assert_int_equal(tauti_gpu_side_of(gpu, other, &again, NULL), TAUT_EIO);
	tauti_gpu_lane_give(lane);
	/* One that is told of is not asked. */
	assert_false(cuCtxCreate_v2(&other, 0, 1));
	assert_int_equal(tauti_gpu_side_of(gpu, other, &side, NULL), TAUT_OK);
	assert_int_equal(tauti_gpu_lane_take(side, 100, &lane, NULL), TAUT_OK);
	tauti_gpu_side_lose(gpu, other);
	tauti_gpu_lane_give(lane);
	assert_int_equal(tauti_gpu_side_of(gpu, other, &again, NULL), TAUT_OK);
	assert_ptr_not_equal(side, again);
	tauti_gpu_side_lose(gpu, other);
	assert_false(cuCtxDestroy_v2(other));
}

/* A primary context that is reset comes again at its address: nothing tells of it but
 * its number. */
static void a_context_that_is_reset_unseen_is_another(void **state)
{
	struct tauti_gpu_copy copy = { NULL, NULL };
	struct tauti_gpu_lane *out, *idle;
	struct tauti_gpu_side *side, *again;
	struct taut_error err = { .message = "" };
	tauti_gpu_context primary;
	bool over = false;

	(void)state;
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_int_equal(tauti_gpu_side_of(gpu, primary, &side, NULL), TAUT_OK);
	assert_int_equal(tauti_gpu_lane_take(side, 100, &out, NULL), TAUT_OK);
	assert_int_equal(tauti_gpu_lane_take(side, 100, &idle, NULL), TAUT_OK);
	tauti_gpu_lane_give(idle);
	assert_int_equal(tauti_gpu_copy_mark(side, &copy, NULL), TAUT_OK);
	assert_false(cuDevicePrimaryCtxReset_v2(0));
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_int_equal(tauti_gpu_copy_test(&copy, &over, &err), TAUT_EIO);
	assert_true(over);
	assert_non_null(strstr(err.message, " (709)"));
	assert_int_equal(tauti_gpu_copy_mark(side, &copy, NULL), TAUT_EIO);
	tauti_gpu_lane_give(out);
	assert_int_equal(tauti_gpu_side_of(gpu, primary, &again, NULL), TAUT_OK);
	assert_ptr_not_equal(side, again);
	assert_int_equal(tauti_gpu_lane_take(again, 100, &out, NULL), TAUT_OK);
	tauti_gpu_lane_give(out);
	assert_int_equal(fake_counts().pinned, 1);
	tauti_gpu_release(gpu);
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
}

static void losing_a_primary_context_makes_none(void **state)
{
	struct tauti_gpu_side *side, *again;
	tauti_gpu_context primary;
	int before = fake_counts().primaries;

	(void)state;
	tauti_gpu_side_lose_primary(gpu, 0);
	gpu->driver.context_id = NULL; /* a driver before 12.0 */
	tauti_gpu_side_lose_primary(gpu, 0);
	tauti_gpu_side_lose_primary(gpu, 99);
	assert_int_equal(fake_counts().primaries, before);
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_int_equal(tauti_gpu_side_of(gpu, primary, &side, NULL), TAUT_OK);
	tauti_gpu_side_lose_primary(gpu, 1);
	assert_int_equal(tauti_gpu_side_of(gpu, primary, &again, NULL), TAUT_OK);
	assert_ptr_equal(side, again);
	tauti_gpu_side_lose_primary(gpu, 0);
	assert_false(cuDevicePrimaryCtxReset_v2(0));
	assert_false(cuDevicePrimaryCtxRetain(&primary, 0));
	assert_int_equal(tauti_gpu_side_of(gpu, primary, &again, NULL), TAUT_OK);
	assert_ptr_not_equal(side, again);
	tauti_gpu_release(gpu);
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
	assert_false(cuDevicePrimaryCtxRelease_v2(0));
}

static void memory_that_is_short(void **state)
{
	void *device = allocated(4096);
	struct tauti_gpu *another = NULL;
	taut_status status;
	long n = 0;

	(void)state;
	do {
		tauti_gpu_release(gpu);
		alloc_fail_after(n);
		status = tauti_gpu_create(&another, NULL);
		if (!status)
			status = there_and_back(device, "short", NULL);
		alloc_fail_never();
		tauti_gpu_destroy(another);
		another = NULL;
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
	} while (status && ++n < 100);
	assert_true(n > 2);
	freed(device);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(kinds_of_memory),
		TEST(memory_of_pools),
		TEST(no_context_is_needed_or_left_behind),
		TEST(a_hit_asks_for_the_number_alone),
		TEST(an_address_that_is_given_out_again_is_not_mistaken),
		TEST(seeded_frees_and_reuse),
		TEST(what_the_driver_cannot_tell),
		TEST(bytes_go_there_and_back),
		TEST(lanes_are_few_in_the_end),
		TEST(lanes_that_wait_are_bounded_in_bytes),
		TEST(lanes_without_a_use_go_after_a_while),
		TEST(where_nothing_can_be_pinned_the_heap_does),
		TEST(every_failure_is_told_and_nothing_is_lost),
		TEST(a_context_that_goes_takes_its_own_along),
		TEST(a_context_that_is_reset_unseen_is_another),
		TEST(losing_a_primary_context_makes_none),
		TEST(memory_that_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
