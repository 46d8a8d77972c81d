/* Sound: beside a decode of the whole, bit for bit; resampled, beside the tone that it is of;
 * and files that are cut, damaged, or claim more than they have. */
#include "tests/support/unit.h"

#include "load/kinds.h"
#include "load/kinds/made_sound.h"
#include "tests/support/alloc_fail.h"

enum { FRAMES = 20000 };

static struct tauti_maker *maker_of(const struct taut_prepare_options *o)
{
	struct taut_error err = { .offset = -1 };
	struct tauti_maker *maker = NULL;

	if (tauti_maker_create(o, &maker, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return maker;
}

static taut_status make(struct tauti_maker *maker, const struct made_sound *sound,
	uint64_t number, float *sample, int64_t *length, struct taut_error *err)
{
	return tauti_maker_make(maker, &(struct tauti_item){ .bytes = sound->bytes,
		.n = sound->n, .name = "a/b.wav", .number = number,
		.draw = tauti_draw_begin(5, 1, number) }, sample, length, err);
}

/* A sample; the caller frees it. */
static float *made(const struct taut_prepare_options *o, const struct made_sound *sound,
	uint64_t number, int64_t *length)
{
	struct tauti_maker *maker = maker_of(o);
	struct taut_error err = { .offset = -1 };
	float *sample = malloc(taut_prepare_slot_bytes(o));

	assert_non_null(sample);
	if (make(maker, sound, number, sample, length, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	tauti_maker_destroy(maker);
	return sample;
}

static void refused(const struct taut_prepare_options *o, const struct made_sound *sound,
	const char *message)
{
	struct tauti_maker *maker = maker_of(o);
	struct taut_error err = { .offset = -1 };
	float *sample = malloc(taut_prepare_slot_bytes(o));
	int64_t length;

	assert_non_null(sample);
	assert_int_equal(make(maker, sound, 0, sample, &length, &err), TAUT_EFORMAT);
	assert_string_equal(err.message, message);
	tauti_maker_destroy(maker);
	free(sample);
}

/* --- numbers ------------------------------------------------------------------------------*/
static void test_wav(void **state)
{
	static const int16_t numbers[] = { 0, 1, -1, 32767, -32768, 12345 };
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = 8 };
	struct made_sound sound = made_wav(8000, 1, numbers, 6);
	int64_t length;
	float *sample = made(&o, &sound, 0, &length);

	(void)state;
	assert_int_equal(length, 6);
	for (int i = 0; i < 6; i++)
		assert_true(sample[i] == (float)numbers[i] / 32768);
	assert_true(sample[6] == 0 && sample[7] == 0);
	free(sample);
	free(sound.bytes);
	sound = made_wav(8000, 1, numbers, 0);
	sample = made(&o, &sound, 0, &length);
	assert_int_equal(length, 0);
	for (int i = 0; i < 8; i++)
		assert_true(sample[i] == 0);
	free(sample);
	free(sound.bytes);
}

static void test_channels(void **state)
{
	static const int16_t two[] = { 100, 300, -100, -500, 7, 8 }, one[] = { 5, 6, 7 };
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = 4 };
	struct made_sound stereo = made_wav(8000, 2, two, 3), mono = made_wav(8000, 1, one, 3);
	struct taut_prepare_shape shape;
	int64_t length;
	float *sample = made(&o, &stereo, 0, &length);

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(sample[i] == (two[2 * i] + two[2 * i + 1]) / 2.0f / 32768);
	free(sample);
	o.channels = 2;
	sample = made(&o, &stereo, 0, &length);
	assert_int_equal(taut_prepare_shape(&o, &shape, NULL), TAUT_OK);
	assert_int_equal(shape.dims[0] * 10 + shape.dims[1], 42);
	for (int i = 0; i < 8; i++)
		assert_true(sample[i] == (i < 6 ? (float)two[i] / 32768 : 0));
	free(sample);
	o.layout = TAUT_LAYOUT_CHW;
	sample = made(&o, &stereo, 0, &length);
	assert_int_equal(taut_prepare_shape(&o, &shape, NULL), TAUT_OK);
	assert_int_equal(shape.dims[0] * 10 + shape.dims[1], 24);
	for (int i = 0; i < 8; i++)
		assert_true(sample[i] ==
			(i % 4 < 3 ? (float)two[i % 4 * 2 + i / 4] / 32768 : 0));
	free(sample);
	sample = made(&o, &mono, 0, &length);
	for (int i = 0; i < 8; i++)
		assert_true(sample[i] == (i % 4 < 3 ? (float)one[i % 4] / 32768 : 0));
	free(sample);
	o.channels = 3;
	refused(&o, &stereo, "a/b.wav: audio: 3 samples of 2 channels, 8000 a second, expected "
		"as many channels as were asked for, or one");
	free(stereo.bytes);
	free(mono.bytes);
}

/* --- pieces -------------------------------------------------------------------------------*/
/* Every piece that is drawn is what a decode of the whole has there. */
static void check_pieces(const struct made_sound *sound, int64_t frames, uint32_t channels)
{
	struct taut_prepare_options all = { .kind = TAUT_KIND_AUDIO, .channels = channels,
		.samples = (uint32_t)frames + 5 };
	struct taut_prepare_options o = all;
	int64_t length, whole_length;
	float *whole = made(&all, sound, 0, &whole_length);

	assert_int_equal(whole_length, frames);
	o.samples = 1777;
	for (uint64_t number = 0; number < 40; number++) {
		struct tauti_draw draw = tauti_draw_begin(5, 1, number);
		uint64_t first;
		float *piece;

		o.cut = (enum taut_prepare_cut)(number % TAUT_CUTS);
		first = tauti_cut(o.cut, (uint64_t)frames, o.samples, &draw);
		piece = made(&o, sound, number, &length);
		assert_int_equal(length, o.samples);
		assert_memory_equal(piece, whole + first * channels,
			o.samples * channels * sizeof *piece);
		free(piece);
	}
	free(whole);
}

static void test_pieces(void **state)
{
	static const struct {
		int format;
		const char *name;
	} rows[] = {
		{ 0x010002, "WAV, 16 bits" }, { 0x010005, "WAV, 8 bits" },
		{ 0x010006, "WAV, float" }, { 0x010010, "WAV, u-law" },
		{ 0x010012, "WAV, IMA ADPCM" }, { 0x020003, "AIFF, 24 bits" },
		{ 0x170002, "FLAC, 16 bits" }, { 0x170003, "FLAC, 24 bits" },
		{ 0x200060, "OGG, Vorbis" }, { 0x200064, "OGG, Opus" },
		{ 0x230082, "MP3" },
	};
	int n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct made_sound sound = made_coded(rows[i].format, 48000, 2, 48000);
		struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = 1 << 20 };
		int64_t frames;

		if (!sound.n) {
			print_message("not written here: %s\n", rows[i].name);
			continue;
		}
		free(made(&o, &sound, 0, &frames)); /* some add a few */
		assert_in_range(frames, 48000, 51000);
		check_pieces(&sound, frames, 2);
		free(sound.bytes);
		n++;
	}
	assert_true(n >= 6);
}

/* --- other rates ---------------------------------------------------------------------------*/
/* A tone stays what it is, and a piece of it is what the whole has there. */
static void check_rate(uint32_t from, uint32_t to)
{
	struct made_sound sound = made_coded(0x010006, from, 1, FRAMES);
	struct taut_prepare_options all = { .kind = TAUT_KIND_AUDIO, .rate = to,
		.samples = 1 << 16 };
	struct taut_prepare_options o = all;
	int64_t length, whole_length;
	float *whole = made(&all, &sound, 0, &whole_length);
	int64_t edge = 150;
	double worst = 0, apart = 0;

	assert_int_equal(whole_length, ((uint64_t)FRAMES * to + from - 1) / from);
	for (int64_t i = edge; i < whole_length - edge; i++)
		worst = fmax(worst, fabs(whole[i] - made_tone((uint64_t)i, 0, to)));
	assert_true(worst < 1e-5);
	o.samples = (uint32_t)whole_length / 5;
	o.cut = TAUT_CUT_RANDOM;
	for (uint64_t number = 0; number < 20; number++) {
		struct tauti_draw draw = tauti_draw_begin(5, 1, number);
		uint64_t first = tauti_cut(
			o.cut, (uint64_t)whole_length, o.samples, &draw);
		float *piece = made(&o, &sound, number, &length);

		assert_int_equal(length, o.samples);
		for (uint64_t i = 0; i < o.samples; i++)
			apart = fmax(apart, fabs(piece[i] - whole[first + i]));
		free(piece);
	}
	print_message("%u to %u: %.2g of the tone, %.2g of the whole\n", from, to, worst, apart);
	assert_true(apart < 1e-5);
	free(whole);
	free(sound.bytes);
}

static void test_rates(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .rate = 16000,
		.samples = 100, .channels = 2 };
	struct made_sound sound = made_wav_tone(44100, 2, 300);
	int64_t length;

	(void)state;
	check_rate(44100, 16000);
	check_rate(8000, 16000);
	check_rate(48000, 44100);
	check_rate(44101, 22050);
	check_rate(96000, 8000);
	check_rate(16000, 16000);
	free(made(&o, &sound, 0, &length));
	assert_int_equal(length, 100);
	o.samples = 200;
	free(made(&o, &sound, 0, &length));
	assert_int_equal(length, 109); /* 300 * 16 / 44.1, up */
	free(sound.bytes);
	sound = made_wav_tone(999, 1, 30);
	refused(&o, &sound, "a/b.wav: audio: 30 samples of 1 channels, 999 a second, expected "
		"a rate of 1000 to 768000");
	free(sound.bytes);
}

/* --- what is wrong -------------------------------------------------------------------------*/
static void test_damaged(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = 400 };
	struct made_sound text = { (unsigned char *)"RIFF, no more", 13 }, none = { NULL, 0 };
	struct made_sound sound = made_wav_tone(8000, 1, 500);

	(void)state;
	refused(&o, &text, "a/b.wav: audio: libsndfile cannot open it (13 bytes), expected WAV, "
		"FLAC, OGG or another that it knows");
	none.bytes = text.bytes;
	refused(&o, &none, "a/b.wav: audio: libsndfile cannot open it (0 bytes), expected WAV, "
		"FLAC, OGG or another that it knows");
	sound.n -= 700;
	refused(&o, &sound, "a/b.wav: audio: byte 44: 300 bytes of sound, expected 1000");
	sound.n += 700;
	memset(sound.bytes + 40, 0xff, 4); /* who streams does not know it */
	free(made(&o, &sound, 0, &(int64_t){ 0 }));
	memset(sound.bytes + 22, 0xff, 2); /* 65,535 channels */
	refused(&o, &sound, "a/b.wav: audio: libsndfile cannot open it (1044 bytes), expected "
		"WAV, FLAC, OGG or another that it knows");
	free(sound.bytes);
}

/* A FLAC that ends early, or says that it is 2^36 - 1 samples long. */
static void test_flac(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = 30000 };
	struct made_sound sound = made_coded(0x170002, 16000, 1, 30000);
	struct tauti_maker *maker = maker_of(&o);
	struct taut_error err = { .offset = -1 };
	float *sample = malloc(taut_prepare_slot_bytes(&o));
	struct made_sound cut = sound;
	int64_t length;

	(void)state;
	assert_non_null(sample);
	if (!sound.n)
		skip();
	for (cut.n = 0; cut.n < sound.n; cut.n += sound.n / 40) {
		assert_int_equal(make(maker, &cut, 0, sample, &length, &err), TAUT_EFORMAT);
		assert_memory_equal(err.message, "a/b.wav: audio: ", 16);
	}
	memset(sound.bytes + 21, sound.bytes[21] | 0x0f, 1);
	memset(sound.bytes + 22, 0xff, 4);
	tauti_maker_destroy(maker);
	o.cut = TAUT_CUT_CENTRE;
	maker = maker_of(&o);
	assert_int_equal(make(maker, &sound, 0, sample, &length, &err), TAUT_EFORMAT);
	assert_non_null(strstr(err.message, "cannot be decoded from sample 34359"));
	tauti_maker_destroy(maker);
	free(sound.bytes);
	free(sample);
}

/* --- options, libraries, memory -------------------------------------------------------------*/
static void check_options(struct taut_prepare_options o, const char *message)
{
	struct taut_error err = { .offset = -1 };

	o.kind = TAUT_KIND_AUDIO;
	assert_int_equal(taut_prepare_check(&o, &err), TAUT_EINVAL);
	assert_string_equal(err.message, message);
}

static void test_options(void **state)
{
	(void)state;
	check_options((struct taut_prepare_options){ .samples = 0 },
		"prepare: samples: expected at least 1, and 2^30 at most of all channels");
	check_options((struct taut_prepare_options){ .samples = 1 << 29, .channels = 3 },
		"prepare: samples: expected at least 1, and 2^30 at most of all channels");
	check_options((struct taut_prepare_options){ .samples = 1, .channels = 1025 },
		"prepare: channels: expected at most 1024");
	check_options((struct taut_prepare_options){ .samples = 1, .rate = 999 },
		"prepare: rate: expected 1000 to 768000, or none");
	check_options((struct taut_prepare_options){ .samples = 1, .format = "wav" },
		"prepare: format: expected none: a file of audio says it");
	check_options((struct taut_prepare_options){ .samples = 1, .type = TAUT_PIXEL_F16 },
		"prepare: type: expected f32");
}

static void test_libraries(void **state)
{
	struct tauti_audio_libs libs = { .sndfile = NULL };
	struct taut_error err = { .offset = -1 };

	(void)state;
	assert_int_equal(tauti_audio_open("libnone.so.7", NULL, &libs, &err), TAUT_EIO);
	assert_string_equal(err.message, "audio: libnone.so.7 is not there: install it "
		"(Debian's package is libsndfile1)");
	assert_int_equal(tauti_audio_open(TAUTI_SNDFILE, "libnone.so.7", &libs, &err),
		TAUT_EIO);
	assert_string_equal(err.message, "audio: libnone.so.7 is not there: install it "
		"(Debian's package is libsoxr0)");
	assert_int_equal(tauti_audio_open("libm.so.6", NULL, &libs, &err), TAUT_EIO);
	assert_string_equal(err.message, "audio: libm.so.6 has no sf_open_virtual: install a "
		"later one (Debian's package is libsndfile1)");
	assert_null(libs.sndfile);
}

static void test_memory(void **state)
{
	struct taut_prepare_options o = { .kind = TAUT_KIND_AUDIO, .samples = 100,
		.rate = 8000 };
	struct made_sound sound = made_wav_tone(16000, 1, 400);
	taut_status status = TAUT_ENOMEM;
	float sample[100];
	int64_t length;
	long n = 0;

	(void)state;
	for (; status == TAUT_ENOMEM; n++) {
		struct tauti_maker *maker = NULL;

		alloc_fail_after(n);
		status = tauti_maker_create(&o, &maker, NULL);
		if (status == TAUT_OK)
			status = make(maker, &sound, 0, sample, &length, NULL);
		alloc_fail_never();
		tauti_maker_destroy(maker);
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 4);
	free(sound.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wav),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_flac),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_memory),
	};
	struct tauti_audio_libs libs;

	if (tauti_audio_open(TAUTI_SNDFILE, TAUTI_SOXR, &libs, NULL) != TAUT_OK) {
		print_message("no libsndfile or libsoxr: skipped\n");
		return UNIT_SKIP;
	}
	tauti_audio_close(&libs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
