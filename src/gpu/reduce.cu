// reduce.cu - reductions on a device: out = from[0] op from[1] op ..., in this order.
//
// One kernel for each type and reduction, taut_<reduction>_<type>. The text is compiled
// by NVRTC for the device at hand, and by a C++ compiler in tests (TAUT_ON_HOST), which
// gives the words of CUDA a meaning. It includes nothing.
//
// The bits are those of taut_reduce() (src/coll/reduce.h): a NaN that comes out is the
// quiet one without sign; the minimum of zeros is -0 if either is, the maximum +0;
// floats of 16 bits are computed in 32 and rounded at each step; integers wrap.
//
// Elements are taken 16 bytes at a time where out and all sources lie alike to a
// boundary of 16; one at a time at the ends, and everywhere where they do not.

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;

enum { SOURCES = 8 }; // as TAUTI_GPU_SOURCES

struct sources {
	const void *from[SOURCES];
	u32 n; // at least 1
};

#ifdef TAUT_ON_HOST
#define DEVICE static inline
#else
#define DEVICE static __device__ __forceinline__

DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE float float_of(u32 x) { return __uint_as_float(x); }
DEVICE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
DEVICE double double_of(u64 x) { return __longlong_as_double((i64)x); }

DEVICE float of_half(u16 x)
{
	float value;

	asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x));
	return value;
}

DEVICE u16 to_half(float value)
{
	u16 x;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x) : "f"(value));
	return x;
}
#endif

// --- elements: `in` is what lies in memory, `as` what is computed ----------------------

struct float32 {
	typedef u32 in;
	typedef float as;
	DEVICE as load(in x) { return float_of(x); }
	DEVICE in store(as v) { return v != v ? 0x7fc00000u : bits_of(v); }
};

struct float64 {
	typedef u64 in;
	typedef double as;
	DEVICE as load(in x) { return double_of(x); }
	DEVICE in store(as v) { return v != v ? 0x7ff8000000000000ull : bits_of(v); }
};

struct float16 {
	typedef u16 in;
	typedef float as;
	DEVICE as load(in x) { return of_half(x); }
	DEVICE in store(as v) { return v != v ? (in)0x7e00 : to_half(v); }
};

struct bfloat16 {
	typedef u16 in;
	typedef float as;
	DEVICE as load(in x) { return float_of((u32)x << 16); }
	DEVICE in store(as v)
	{
		u32 x = bits_of(v);

		return v != v ? (in)0x7fc0 : (in)((x + 0x7fff + (x >> 16 & 1)) >> 16);
	}
};

template <class T> struct whole {
	typedef T in;
	typedef T as;
	DEVICE as load(in x) { return x; }
	DEVICE in store(as v) { return v; }
};

// --- reductions ------------------------------------------------------------------------

struct sum {
	template <class T> DEVICE T of(T a, T b) { return (T)(a + b); }
};

struct product {
	template <class T> DEVICE T of(T a, T b) { return (T)(a * b); }
};

struct bit_and {
	template <class T> DEVICE T of(T a, T b) { return (T)(a & b); }
};

struct bit_or {
	template <class T> DEVICE T of(T a, T b) { return (T)(a | b); }
};

struct bit_xor {
	template <class T> DEVICE T of(T a, T b) { return (T)(a ^ b); }
};

// Equal floats differ in their bits only where both are zero.
DEVICE float zero_of(u32 x) { return float_of(x); }
DEVICE double zero_of(u64 x) { return double_of(x); }

struct least {
	template <class T> DEVICE T of(T a, T b)
	{
		T x = a == b ? zero_of(bits_of(a) | bits_of(b)) : a < b ? a : b;

		return a != a ? a : b != b ? b : x;
	}
};

struct most {
	template <class T> DEVICE T of(T a, T b)
	{
		T x = a == b ? zero_of(bits_of(a) & bits_of(b)) : a > b ? a : b;

		return a != a ? a : b != b ? b : x;
	}
};

struct whole_least {
	template <class T> DEVICE T of(T a, T b) { return a < b ? a : b; }
};

struct whole_most {
	template <class T> DEVICE T of(T a, T b) { return a > b ? a : b; }
};

// --- the loop --------------------------------------------------------------------------

template <class E, class Op>
DEVICE typename E::in join(typename E::in a, typename E::in b)
{
	return E::store(Op::of(E::load(a), E::load(b)));
}

template <class E, class Op>
DEVICE void one(typename E::in *out, const sources &s, u64 i)
{
	typedef typename E::in in;
	in x = ((const in *)s.from[0])[i];

#pragma unroll
	for (u32 k = 1; k < SOURCES; k++)
		if (k < s.n)
			x = join<E, Op>(x, ((const in *)s.from[k])[i]);
	out[i] = x;
}

template <class in> union alignas(16) sixteen_bytes {
	u32 word[4];
	in element[16 / sizeof(in)];
};

// Elements of out from i on, where all lies on a boundary.
template <class E, class Op>
DEVICE void several(typename E::in *out, const sources &s, u64 i)
{
	typedef typename E::in in;
	typedef sixteen_bytes<in> bytes;
	bytes x = *(const bytes *)((const in *)s.from[0] + i);

#pragma unroll
	for (u32 k = 1; k < SOURCES; k++)
		if (k < s.n) {
			bytes y = *(const bytes *)((const in *)s.from[k] + i);

#pragma unroll
			for (u32 e = 0; e < 16 / sizeof(in); e++)
				x.element[e] = join<E, Op>(
					x.element[e], y.element[e]);
		}
	*(bytes *)(out + i) = x;
}

// Elements before the first boundary; `count`, where they do not lie alike.
template <class in>
DEVICE u64 before_boundary(const in *out, const sources &s, u64 count)
{
	u64 past = (u64)out & 15;
	u64 head = (16 - past) % 16 / sizeof(in);

#pragma unroll
	for (u32 k = 0; k < SOURCES; k++)
		if (k < s.n && ((u64)s.from[k] & 15) != past)
			return count;
	return past % sizeof(in) || head > count ? count : head;
}

template <class E, class Op>
DEVICE void reduce(typename E::in *out, const sources &s, u64 count)
{
	const u64 lanes = 16 / sizeof(typename E::in);
	const u64 me = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	const u64 all = (u64)gridDim.x * blockDim.x;
	const u64 head = before_boundary(out, s, count);
	const u64 body = (count - head) / lanes;

	for (u64 i = me; i < head; i += all)
		one<E, Op>(out, s, i);
	for (u64 i = me; i < body; i += all)
		several<E, Op>(out, s, head + i * lanes);
	for (u64 i = head + body * lanes + me; i < count; i += all)
		one<E, Op>(out, s, i);
}

// --- kernels ---------------------------------------------------------------------------

#define KERNEL(reduction, name, element, operation) \
	extern "C" __global__ void taut_##reduction##_##name( \
		void *out, const sources s, u64 count) \
	{ \
		reduce<element, operation>((element::in *)out, s, count); \
	}

#define FLOATS(name) \
	KERNEL(sum, name, name, sum) \
	KERNEL(product, name, name, product) \
	KERNEL(min, name, name, least) \
	KERNEL(max, name, name, most)

// Sums, products and bits are the same with a sign and without.
#define WHOLES(name, type, unsigned_type) \
	KERNEL(sum, name, whole<unsigned_type>, sum) \
	KERNEL(product, name, whole<unsigned_type>, product) \
	KERNEL(min, name, whole<type>, whole_least) \
	KERNEL(max, name, whole<type>, whole_most) \
	KERNEL(bit_and, name, whole<unsigned_type>, bit_and) \
	KERNEL(bit_or, name, whole<unsigned_type>, bit_or) \
	KERNEL(bit_xor, name, whole<unsigned_type>, bit_xor)

FLOATS(float32)
FLOATS(float64)
FLOATS(float16)
FLOATS(bfloat16)
WHOLES(int8, i8, u8)
WHOLES(uint8, u8, u8)
WHOLES(int32, i32, u32)
WHOLES(int64, i64, u64)
WHOLES(uint64, u64, u64)
