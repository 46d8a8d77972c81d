/* plan_models.c - ResNet-50, VGG-16, Inception v3, BERT-Base; see plan_models.h. */
#include "plan_net.h"

/* NVIDIA's V100: 15.7 TFLOP/s of float32, 900 GB/s. Products get some six tenths of it,
 * memory eight; Winograd's convolution multiplies 2.25 times less than it is counted. */
const struct plan_rates plan_v100 = {
	.conv_tflops = 9.4, .winograd_tflops = 18, .gemm_tflops = 11,
	.point_tflops = 7.8, .memory_gbs = 720, .launch_us = 4.5,
};

enum { MOMENTUM = 5, ADAM = 7 }; /* passes over a weight */

double plan_gradient_bytes(const struct made_step *step)
{
	double sum = 0;

	for (size_t i = 0; i < step->gradients.count; i++)
		sum += (double)step->gradients.data[i].bytes;
	return sum;
}

/* --- convolutions ----------------------------------------------------------------------- */

static uint32_t conv_norm(struct plan_net *net, uint32_t in, uint32_t c,
	uint32_t kernel, uint32_t stride)
{
	return plan_same(net, PLAN_BATCHNORM,
		plan_conv(net, in, c, kernel, kernel, stride, true));
}

static uint32_t cbr(struct plan_net *net, uint32_t in, uint32_t c, uint32_t kh,
	uint32_t kw, uint32_t stride, bool pads)
{
	return plan_same(net, PLAN_RELU, plan_same(net, PLAN_BATCHNORM,
		plan_conv(net, in, c, kh, kw, stride, pads)));
}

static uint32_t classify(struct plan_net *net, uint32_t in)
{
	return plan_loss(net, plan_same(net, PLAN_BIAS,
		plan_linear(net, in, 1000)));
}

/* He et al., CVPR 2016; the stride in the 3 x 3, as in all of today's. */
static uint32_t bottleneck(struct plan_net *net, uint32_t in, uint32_t c,
	uint32_t stride, bool projects)
{
	uint32_t x = cbr(net, in, c, 1, 1, 1, true), side = in;

	x = cbr(net, x, c, 3, 3, stride, true);
	x = conv_norm(net, x, 4 * c, 1, 1);
	if (projects)
		side = conv_norm(net, in, 4 * c, 1, stride);
	return plan_same(net, PLAN_RELU, plan_add(net, x, side));
}

static struct made_step *resnet50(const struct plan_rates *rates, uint32_t batch)
{
	static const uint32_t blocks[] = { 3, 4, 6, 3 };
	struct plan_net net;
	uint32_t x;

	plan_net_init(&net, rates, batch, MOMENTUM);
	x = cbr(&net, plan_input(&net, 3, 224, 224), 64, 7, 7, 2, true);
	x = plan_pool(&net, x, 3, 2, true);
	for (uint32_t s = 0; s < 4; s++)
		for (uint32_t b = 0; b < blocks[s]; b++)
			x = bottleneck(&net, x, 64u << s, s && !b ? 2 : 1, !b);
	classify(&net, plan_pool(&net, x, 0, 0, false));
	return plan_net_finish(&net);
}

/* Simonyan and Zisserman, ICLR 2015: configuration D; 0: a pool. */
static struct made_step *vgg16(const struct plan_rates *rates, uint32_t batch)
{
	static const uint32_t layers[] = { 64, 64, 0, 128, 128, 0, 256, 256, 256, 0,
		512, 512, 512, 0, 512, 512, 512, 0 };
	struct plan_net net;
	uint32_t x;

	plan_net_init(&net, rates, batch, MOMENTUM);
	x = plan_input(&net, 3, 224, 224);
	for (uint32_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
		x = layers[i] ? plan_same(&net, PLAN_RELU, plan_same(&net,
			PLAN_BIAS, plan_conv(&net, x, layers[i], 3, 3, 1, true))) :
			plan_pool(&net, x, 2, 2, false);
	/* 7 x 7 x 512 to 4096 is a product over all of it */
	x = plan_conv(&net, x, 4096, 7, 7, 1, false);
	for (uint32_t i = 0; i < 2; i++) {
		x = plan_same(&net, PLAN_RELU, plan_same(&net, PLAN_BIAS, x));
		x = plan_same(&net, PLAN_DROPOUT, x);
		if (!i)
			x = plan_linear(&net, x, 4096);
	}
	classify(&net, x);
	return plan_net_finish(&net);
}

/* --- Inception v3: Szegedy et al., CVPR 2016 ----------------------------------------------- */

static uint32_t square(struct plan_net *net, uint32_t in, uint32_t c, uint32_t k)
{
	return cbr(net, in, c, k, k, 1, true);
}

static uint32_t inception_a(struct plan_net *net, uint32_t in, uint32_t pool)
{
	uint32_t out[4];

	out[0] = square(net, in, 64, 1);
	out[1] = square(net, square(net, in, 48, 1), 64, 5);
	out[2] = square(net, square(net, square(net, in, 64, 1), 96, 3), 96, 3);
	out[3] = square(net, plan_pool(net, in, 3, 1, true), pool, 1);
	return plan_concat(net, out, 4);
}

static uint32_t inception_b(struct plan_net *net, uint32_t in)
{
	uint32_t out[3];

	out[0] = cbr(net, in, 384, 3, 3, 2, false);
	out[1] = cbr(net, square(net, square(net, in, 64, 1), 96, 3), 96, 3, 3, 2,
		false);
	out[2] = plan_pool(net, in, 3, 2, false);
	return plan_concat(net, out, 3);
}

static uint32_t seven(struct plan_net *net, uint32_t in, uint32_t c, bool high)
{
	return cbr(net, in, c, high ? 7 : 1, high ? 1 : 7, 1, true);
}

static uint32_t inception_c(struct plan_net *net, uint32_t in, uint32_t c)
{
	uint32_t out[4], x;

	out[0] = square(net, in, 192, 1);
	x = seven(net, square(net, in, c, 1), c, false);
	out[1] = seven(net, x, 192, true);
	x = seven(net, square(net, in, c, 1), c, true);
	x = seven(net, seven(net, x, c, false), c, true);
	out[2] = seven(net, x, 192, false);
	out[3] = square(net, plan_pool(net, in, 3, 1, true), 192, 1);
	return plan_concat(net, out, 4);
}

static uint32_t inception_d(struct plan_net *net, uint32_t in)
{
	uint32_t out[3], x;

	out[0] = cbr(net, square(net, in, 192, 1), 320, 3, 3, 2, false);
	x = seven(net, square(net, in, 192, 1), 192, false);
	out[1] = cbr(net, seven(net, x, 192, true), 192, 3, 3, 2, false);
	out[2] = plan_pool(net, in, 3, 2, false);
	return plan_concat(net, out, 3);
}

static uint32_t inception_e(struct plan_net *net, uint32_t in)
{
	uint32_t out[6], x;

	out[0] = square(net, in, 320, 1);
	x = square(net, in, 384, 1);
	out[1] = cbr(net, x, 384, 1, 3, 1, true);
	out[2] = cbr(net, x, 384, 3, 1, 1, true);
	x = square(net, square(net, in, 448, 1), 384, 3);
	out[3] = cbr(net, x, 384, 1, 3, 1, true);
	out[4] = cbr(net, x, 384, 3, 1, 1, true);
	out[5] = square(net, plan_pool(net, in, 3, 1, true), 192, 1);
	return plan_concat(net, out, 6);
}

static struct made_step *inception_v3(
	const struct plan_rates *rates, uint32_t batch)
{
	static const uint32_t pools[] = { 32, 64, 64 }, sevens[] = { 128, 160,
		160, 192 };
	struct plan_net net;
	uint32_t x;

	plan_net_init(&net, rates, batch, MOMENTUM);
	x = cbr(&net, plan_input(&net, 3, 299, 299), 32, 3, 3, 2, false);
	x = cbr(&net, x, 32, 3, 3, 1, false);
	x = plan_pool(&net, square(&net, x, 64, 3), 3, 2, false);
	x = cbr(&net, square(&net, x, 80, 1), 192, 3, 3, 1, false);
	x = plan_pool(&net, x, 3, 2, false);
	for (uint32_t i = 0; i < 3; i++)
		x = inception_a(&net, x, pools[i]);
	x = inception_b(&net, x);
	for (uint32_t i = 0; i < 4; i++)
		x = inception_c(&net, x, sevens[i]);
	x = inception_e(&net, inception_e(&net, inception_d(&net, x)));
	x = plan_same(&net, PLAN_DROPOUT, plan_pool(&net, x, 0, 0, false));
	classify(&net, x);
	return plan_net_finish(&net);
}

/* --- BERT-Base: Devlin et al., NAACL 2019; sequences of 128, two classes --------------------- */

enum { WIDTH = 768, HEADS = 12, SEQUENCE = 128, LAYERS = 12, WORDS = 30522 };

static uint32_t dense(struct plan_net *net, uint32_t in, uint32_t c)
{
	return plan_same(net, PLAN_BIAS, plan_linear(net, in, c));
}

static uint32_t residual(struct plan_net *net, uint32_t x, uint32_t side)
{
	return plan_same(net, PLAN_LAYERNORM, plan_add(net,
		plan_same(net, PLAN_DROPOUT, x), side));
}

static uint32_t attention(struct plan_net *net, uint32_t in)
{
	uint32_t q = dense(net, in, WIDTH), k = dense(net, in, WIDTH);
	uint32_t v = dense(net, in, WIDTH), depth = WIDTH / HEADS;
	uint32_t x = plan_matmul(net, q, k, HEADS, SEQUENCE, depth, SEQUENCE);

	x = plan_same(net, PLAN_SOFTMAX, plan_same(net, PLAN_SCALE, x));
	x = plan_same(net, PLAN_DROPOUT, x);
	x = plan_matmul(net, x, v, HEADS, SEQUENCE, SEQUENCE, depth);
	return residual(net, dense(net, x, WIDTH), in);
}

static struct made_step *bert_base(const struct plan_rates *rates, uint32_t batch)
{
	struct plan_net net;
	uint32_t x, words;

	plan_net_init(&net, rates, batch, ADAM);
	words = plan_input(&net, 1, SEQUENCE, 1);
	x = plan_add(&net, plan_embed(&net, words, WORDS, WIDTH),
		plan_embed(&net, words, 512, WIDTH));
	x = plan_add(&net, x, plan_embed(&net, words, 2, WIDTH));
	x = plan_same(&net, PLAN_DROPOUT, plan_same(&net, PLAN_LAYERNORM, x));
	for (uint32_t i = 0; i < LAYERS; i++) {
		x = attention(&net, x);
		x = residual(&net, dense(&net, plan_same(&net, PLAN_GELU,
			dense(&net, x, 4 * WIDTH)), WIDTH), x);
	}
	x = plan_same(&net, PLAN_RELU, dense(&net,
		plan_pool(&net, x, 0, 0, false), WIDTH)); /* the pooler; tanh */
	plan_loss(&net, dense(&net, x, 2));
	return plan_net_finish(&net);
}

const struct plan_model plan_models[] = {
	{ "ResNet50", resnet50 },
	{ "VGG16", vgg16 },
	{ "InceptionV3", inception_v3 },
	{ "BERT-Base", bert_base },
	{ NULL, NULL },
};
