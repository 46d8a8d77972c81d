/* study.c - any bytes behind the header of a table of operations. Held in
 * pieces of 64 bytes or as usual, the outcome must be the same; what is read is
 * analysed to the end. */
#include "tests/fuzz/analyse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char header[] =
	"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
enum { MOST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source small, usual;
	size_t head = sizeof header - 1;
	char *text = size < MOST ? malloc(head + size) : NULL;
	if (!text)
		return 0;
	memcpy(text, header, head);
	memcpy(text + head, data, size);
	source_begin(&small, 64);
	source_begin(&usual, 0);
	source_read(&small, text, head + size);
	source_read(&usual, text, head + size);
	source_end(&small);
	source_end(&usual);
	source_same(&small, &usual);
	tauti_builder_fini(&small.builder);
	tauti_builder_fini(&usual.builder);
	analyse(text, head + size);
	free(text);
	return 0;
}
