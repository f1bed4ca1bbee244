/* What the headers need of it; PyPI's libclang brings no system headers. */
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#define UINT64_MAX 18446744073709551615UL
