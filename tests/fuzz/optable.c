/* optable.c - any bytes as a table of operations, perhaps behind a header that
 * knows every column. */
#include "tests/fuzz/analyse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const headers[] = { "",
	"rank,step,name,kind,lane,start_us,duration_us,group,bytes,id,waits\n",
	"rank,stage,dp_rank,step,name,start_us,end_us,micro_batch,chunk,peer\n",
};
enum { MOST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *header;
	if (!size || size > MOST)
		return 0;
	header = headers[data[0] == '1' ? 1 : data[0] == '2' ? 2 : 0];
	if (*header)
		data++, size--;
	analyse_table(header, data, size);
	return 0;
}
