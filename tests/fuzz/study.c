/* study.c - any bytes behind the header of the study's tables. */
#include "tests/fuzz/analyse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char header[] =
	"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
enum { MOST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < MOST)
		analyse_table(header, data, size);
	return 0;
}
