#include <taut/base.h>
