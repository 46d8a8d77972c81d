/* label_test.c - kernel names as they come, and hostile ones. */
#include <stdlib.h>
#include <string.h>

#include "report/label.h"
#include "tests/support/unit.h"

static char label[TAUTI_LABEL_BYTES];

static void test_columns(void **state)
{
	(void)state;
	assert_int_equal(tauti_columns(""), 0);
	assert_int_equal(tauti_columns("abc"), 3);
	assert_int_equal(tauti_columns("\xc3\xa9"), 1);          /* e acute */
	assert_int_equal(tauti_columns("e\xcc\x81"), 1);         /* combining */
	assert_int_equal(tauti_columns("\xe5\xb1\x82"), 2);      /* CJK */
	assert_int_equal(tauti_columns("\xf0\x9f\x94\xa5"), 2);  /* emoji */
	assert_int_equal(tauti_columns("\033[1mab\033[0m"), 2);
	assert_int_equal(tauti_columns("\xff\xfe"), 2); /* two bytes, no UTF-8 */
}

static const struct {
	const char *name, *shown;
} functions[] = {
	{ "void at::native::vectorized_elementwise_kernel<4, at::native::"
		"CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, "
		"at::native::CUDAFunctor_add<float>, at::detail::Array<char*, "
		"3>)", "vectorized_elementwise_kernel<CUDAFunctor_add>" },
	{ "void at::native::elementwise_kernel<128, 2, at::native::"
		"gpu_kernel_impl<at::native::BinaryFunctor<float, float, float, "
		"at::native::MulFunctor<float> > >(at::TensorIteratorBase&)::"
		"{lambda(int)#1}>(int)", "elementwise_kernel<BinaryFunctor>" },
	{ "void (anonymous namespace)::softmax_warp_forward<float, float, "
		"float, 8, false, false>(float*, int)", "softmax_warp_forward" },
	{ "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned "
		"long, ncclWork*)", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" },
	{ "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, "
		"int, float, float>(int)", "internal::gemvx::kernel" },
	{ "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_nn>(P)",
		"cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_nn>" },
	/* no functions: nothing may be lost */
	{ "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
		"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__" },
	{ "Memcpy HtoD (Pageable -> Device)",
		"Memcpy HtoD (Pageable -> Device)" },
	{ "torch/nn/modules/module.py(1501): _call_impl",
		"torch/nn/modules/module.py(1501): _call_impl" },
	{ "<built-in method run_backward of torch._C._EngineBase object>",
		"<built-in method run_backward of torch._C._EngineBase object>" },
	{ "(between events)", "(between events)" },
	{ "a < b", "a < b" },
	{ "", "" },
};

static void test_functions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
		assert_string_equal(tauti_label(functions[i].name, 80, label),
			functions[i].shown);
}

static void test_hint_only_where_it_fits(void **state)
{
	const char *name = functions[0].name;

	(void)state;
	assert_string_equal(tauti_label(name, 45, label),
		"vectorized_elementwise_kernel");
	assert_string_equal(tauti_label(name, 46, label), functions[0].shown);
}

static void test_cut_in_the_middle(void **state)
{
	(void)state;
	assert_string_equal(tauti_label("abcdefghij", 10, label),
		"abcdefghij");
	assert_string_equal(tauti_label("abcdefghijk", 10, label),
		"abc\xe2\x80\xa6" "fghijk");
	assert_string_equal(tauti_label("abcdef", 1, label), "\xe2\x80\xa6");
}

static void test_never_wider_than_asked(void **state)
{
	static const char *const names[] = { "\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1"
		"\x82\xe5\xb1\x82 layer \xe5\xb1\x82\xe5\xb1\x82",
		"plain ascii name that is long enough to be cut",
		"\xf0\x9f\x94\xa5\xf0\x9f\x94\xa5\xf0\x9f\x94\xa5\xf0\x9f\x94"
		"\xa5", "\xff\xff\xff\xff\xff\xff\xff\xff" };

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		for (int columns = 1; columns < 60; columns++)
			assert_in_range(tauti_columns(tauti_label(
				names[i], columns, label)), 1, columns);
}

static void test_terminal_is_not_obeyed(void **state)
{
	(void)state;
	assert_string_equal(tauti_label("a\033[31mb\r\n\tc\x7f", 40, label),
		"a?[31mb???c?");
	/* C1 control, and right-to-left override */
	assert_string_equal(tauti_label("a\xc2\x9b" "b\xe2\x80\xae" "c", 40,
		label), "a?b?c");
	assert_string_equal(tauti_label_plain("x\xff\x01", label),
		"x\xef\xbf\xbd?");
}

static void test_huge_names(void **state)
{
	enum { LEN = 100000 };
	static const char *const pieces[] = { "a", "<", "a<", "\xcc\x81",
		"\xf0\x9f\x94\xa5", "(", "void ", "::", "\xff" };

	(void)state;
	for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
		size_t n = strlen(pieces[i]);
		char *name = malloc(LEN + 8);

		assert_non_null(name);
		for (size_t at = 0; at < LEN; at += n)
			memcpy(name + at, pieces[i], n);
		name[LEN / n * n] = '\0';
		tauti_label(name, 50, label);
		assert_in_range(tauti_columns(label), 0, 50);
		assert_in_range(strlen(label), 0, TAUTI_LABEL_BYTES - 1);
		tauti_label(name, 1 << 30, label);
		assert_in_range(strlen(label), 0, TAUTI_LABEL_BYTES - 1);
		tauti_label_plain(name, label);
		assert_in_range(strlen(label), 0, TAUTI_LABEL_BYTES - 1);
		free(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_hint_only_where_it_fits),
		cmocka_unit_test(test_cut_in_the_middle),
		cmocka_unit_test(test_never_wider_than_asked),
		cmocka_unit_test(test_terminal_is_not_obeyed),
		cmocka_unit_test(test_huge_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
