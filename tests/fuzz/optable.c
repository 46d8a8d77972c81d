/* optable.c - any bytes as a table of operations, perhaps behind a header that
 * knows every column. Held in pieces of 64 bytes or as usual, the outcome must
 * be the same; what is read is analysed to the end. */
#include "tests/fuzz/analyse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const headers[] = { "",
	"rank,step,name,kind,lane,start_us,duration_us,group,bytes,id,waits\n",
	"rank,stage,dp_rank,step,name,start_us,end_us,micro_batch,chunk,peer\n",
};
enum { MOST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source small, usual;
	const char *header;
	size_t head;
	char *text;
	if (!size || size > MOST)
		return 0;
	header = headers[data[0] == '1' ? 1 : data[0] == '2' ? 2 : 0];
	head = strlen(header);
	if (head)
		data++, size--;
	text = malloc(head + size + 1);
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
